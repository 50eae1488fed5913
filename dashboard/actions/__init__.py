"""What operators can do: each action asks first, takes a reason and is audited."""
