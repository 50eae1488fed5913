"""Pages of bots."""
