"""Slots whose starts fail again and again: which they are, and taking them out of service."""
