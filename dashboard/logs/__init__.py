"""Pages with logs: those kept of failures, and that of a running container."""
