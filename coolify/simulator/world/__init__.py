"""What the simulated Coolify consists of, without HTTP: applications, deployments, containers."""
