"""Events out to clients: where to, what, signed how, and again after a failure."""
