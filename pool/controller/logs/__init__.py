"""Logs of containers and deployments: read from Coolify, made fit to keep and to show. A log never
delays a stop for long, and never takes a call that a start or stop needs."""
