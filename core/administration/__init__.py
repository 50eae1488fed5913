"""The look of the Django admin: its site and index, readable columns, coloured statuses."""
