"""How Django writes times in the admin."""
