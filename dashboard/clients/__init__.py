"""Pages about those who call the API: webhook endpoints and their deliveries."""
