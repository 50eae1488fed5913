"""Bots: models, statuses, moves, history. What happens to a bot is decided in pool."""
