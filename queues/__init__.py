"""The queue's model and admin. The code that adds, removes and serves waiters is in pool."""
