"""Bot models, statuses, moves and history. The pool package decides what happens to a bot."""
