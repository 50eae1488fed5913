"""A typed client for Coolify's API: endpoints, requests, answers and errors.

Knows nothing about slots. Of the budget it knows only the gate that each call passes.
"""

from coolify.client.endpoints import Coolify

__all__ = ["Coolify"]
