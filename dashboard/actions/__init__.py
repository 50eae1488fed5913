"""Operator actions. Each one asks for confirmation, takes a reason and is audited."""
