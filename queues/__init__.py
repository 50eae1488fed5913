"""The queue: its model and admin. Joining, leaving and draining it is decided in pool."""
