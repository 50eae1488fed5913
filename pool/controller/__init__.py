"""Drives slots: the only code that talks to Coolify about a slot."""
