"""The page about Coolify's servers."""
