"""Images: which one bots use, the switch to a new one, and what is to be pulled beforehand. Rows
only; calls to Coolify are in pool.controller.prepulls."""
