"""Every path that Botpool serves, read from the URL configuration."""

import re
from collections.abc import Iterator

from django.urls import URLPattern, get_resolver

from bots.models import Bot
from dashboard.actions.registry import ACTIONS
from slots.models import Slot
from tests.factories import BotFactory

# Public by contract.
PUBLIC = {"healthz", "readyz", "metrics", "login/", "admin/login/", "api/v1/openapi.json"}
PUBLIC |= {"api/v1/docs"}
# Without effect for anonymous visitors.
HARMLESS = {"logout/", "admin/logout/"}


def a_bot() -> Bot:
    """A bot with the first line of its history."""
    bot: Bot = BotFactory(status_reason="Bot requested", status_actor="test")
    return bot


def routes() -> list[str]:
    return list(_flat(get_resolver().url_patterns, prefix=""))


def _flat(patterns: list, *, prefix: str) -> Iterator[str]:
    for each in patterns:
        route = prefix + str(each.pattern)
        if isinstance(each, URLPattern):
            yield route
        else:
            yield from _flat(each.url_patterns, prefix=route)


def paths(route: str, *, slot: Slot, bot: Bot) -> list[str]:
    """The route with existing objects as its parameters."""
    if route == "actions/<slug:name>/":
        return [f"/actions/{name}/" for name in ACTIONS]
    known = {"name": slot.name, "slotName": slot.name, "pk": bot.pk, "id": bot.pk}
    known |= {"object_id": bot.pk, "content_type_id": 1, "secret": "wrong"}
    known |= {"coolifyServiceUuid": slot.coolify_uuid, "serverName": "server-1"}
    route = re.sub(r"\^?\(\?P<app_label>(\w+)[^)]*\)/\$", r"\1/", route)
    route = re.sub(r"\(\?P<url>[^)]*\)\$?", "nowhere", route)
    return ["/" + re.sub(r"<(?:\w+:)?(\w+)>", lambda match: str(known[match[1]]), route)]
