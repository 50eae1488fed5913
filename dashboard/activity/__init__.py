"""History, repairs, leases and calls, as lists and CSV."""
