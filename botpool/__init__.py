"""The project: settings, URLs, periodic schedule and commands. No other package imports it."""
