"""The history page: load, waits, starts and failures over time."""
