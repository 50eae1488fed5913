"""The simulator as a web server: routes, refusals, rate limit, its page and its control path."""
