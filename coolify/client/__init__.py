"""One HTTP call to Coolify, typed: endpoints, requests, answers and errors.

Knows nothing of slots, and nothing of the budget but the gate that each call passes.
"""

from coolify.client.endpoints import Coolify

__all__ = ["Coolify"]
