"""Pages of slots and their deployments."""
