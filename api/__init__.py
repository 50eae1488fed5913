"""The JSON API for clients and bots, and webhooks out. Each call is one of pool."""
