"""The client for the Coolify in the settings. Every call goes through the shared budget."""

from __future__ import annotations

from functools import cache

from django.conf import settings

from coolify.budget.access import fingerprint, refusals
from coolify.budget.governor import Governor
from coolify.client import Coolify
from coolify.models import Refusal


def shared_coolify() -> Coolify:
    return _governed(settings.COOLIFY_API_URL, settings.COOLIFY_API_TOKEN)


def refused_access() -> list[Refusal]:
    """What Coolify refuses to the token in the settings."""
    return refusals(fingerprint(settings.COOLIFY_API_URL, settings.COOLIFY_API_TOKEN))


@cache
def _governed(base_url: str, token: str) -> Coolify:
    return Coolify(base_url, token, gate=Governor(token=fingerprint(base_url, token)))
