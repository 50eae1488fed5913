"""JSON API for clients and bots, and outgoing webhooks. Views call pool; they write no status."""
