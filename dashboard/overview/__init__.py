"""The overview page: health, what needs attention, and one card per platform."""
