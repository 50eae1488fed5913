"""The first page: one card per platform, health, and what needs attention."""
