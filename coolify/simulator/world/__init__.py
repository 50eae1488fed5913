"""The simulated Coolify and its servers: applications, deployments, containers. No HTTP."""
