"""Notifications: conditions that last, rules about them, and messages to channels. Not webhooks to
clients (api.webhooks)."""
