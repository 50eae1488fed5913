"""The activity page: history, repairs, leases and calls, with CSV export."""
