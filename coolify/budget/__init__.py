"""The budget of calls that all processes share: who may call now, and what was spent."""
