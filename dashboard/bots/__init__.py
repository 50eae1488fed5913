"""Pages about bots."""
