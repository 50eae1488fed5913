"""The call budget that all processes share: which calls may be made now, and what was spent."""
