"""The simulator's HTTP server: Coolify's API, the rate limit, the page and the control path."""
