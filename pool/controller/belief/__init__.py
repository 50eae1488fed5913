"""Which answers of Coolify may be believed: the one place that decides it, for every path that
would forget, release or fail something because of an answer. It changes no slot."""
