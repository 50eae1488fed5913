"""What lists share: export as CSV, and the search over bots, slots and deployments."""
