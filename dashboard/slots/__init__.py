"""Pages about slots and their deployments."""
