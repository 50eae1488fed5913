"""The pages for operators: live fragments, actions that ask first, login. Calls pool."""
