"""Outgoing webhooks: allowed addresses, signatures, deliveries and retries."""
