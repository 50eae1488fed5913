"""Pages for operators: live fragments, confirmed actions, login. Calls pool."""
