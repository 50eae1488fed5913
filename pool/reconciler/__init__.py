"""Finds what should not be, in the rows and in Coolify, and repairs it through pool.lifecycle."""
