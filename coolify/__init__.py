"""Talking to Coolify: the client, its budget of calls, and the simulator. Imports core only."""
