"""How Coolify is set up: what the doctor says of its version, destinations, clean-up, workers and
notifications."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import urlsplit

from django.conf import settings

from coolify.client import Coolify
from coolify.client.errors import CoolifyError, NotFound, Refused, WrongAddress
from coolify.client.resources import Cleanup, Server

OLDEST_COOLIFY = (4, 0)
# Botpool ran against this version's own API, with a faked Docker; otherwise against the simulator.
TRIED = (4, 3)
TRIED_VERSION = "4.3.11"
# Deployments, stops and status updates share these.
JOB_WORKERS = 4
WEBHOOK = "notifications"
# Words that Coolify takes for times.
WORDS = {"daily": "00:00", "@daily": "00:00", "@midnight": "00:00"}


@dataclass(frozen=True)
class Diagnosis:
    name: str
    healthy: bool | None  # None: skipped
    finding: str
    advice: str = ""


def about_version(version: str) -> Diagnosis:
    numbers = tuple(int(part) for part in version.lstrip("v").split(".")[:2] if part.isdecimal())
    where = f"version {version} at {settings.COOLIFY_API_URL}"
    if numbers < OLDEST_COOLIFY:
        return Diagnosis("Coolify", False, f"version {version}", "Upgrade Coolify to version 4.")
    if numbers > TRIED:
        where += f"; newer than {TRIED_VERSION}, the last one that Botpool was tried with"
    elif numbers < TRIED:
        where += (
            f"; older than {TRIED_VERSION}, so some settings of applications may be unknown to it"
        )
    return Diagnosis("Coolify", True, where)


def about_server(coolify: Coolify, server: Server) -> Iterator[Diagnosis]:
    """What of its settings breaks or slows down the pool. Early versions do not show all of it."""
    for name, check in (("destinations", _destinations), ("clean-up", _cleanup)):
        name = f"{name} of {server.uuid}"
        try:
            yield check(coolify, server, name)
        except (WrongAddress, NotFound):
            yield Diagnosis(name, None, "this version of Coolify does not show them")
    yield _builds(server)


def _destinations(coolify: Coolify, server: Server, name: str) -> Diagnosis:
    known, wanted = coolify.destinations(server.uuid), settings.COOLIFY_DESTINATION_UUID
    listed = ", ".join(known) or "none exist"
    if wanted and wanted not in known:
        advice = f"Set COOLIFY_DESTINATION_UUID to one of: {listed}."
        return Diagnosis(name, False, f"{wanted} is not a destination of this server", advice)
    if not wanted and len(known) > 1:
        advice = f"Set COOLIFY_DESTINATION_UUID to one of: {listed}. Else no slot can be created."
        return Diagnosis(name, False, f"{len(known)} destinations, and none is chosen", advice)
    return Diagnosis(name, True, wanted or listed)


def _cleanup(coolify: Coolify, server: Server, name: str) -> Diagnosis:
    cleanup = coolify.docker_cleanup(server.uuid)
    if cleanup.keeps_no_images:
        advice = (
            "Switch off “Disable application image retention” in the server's Docker clean-up: "
            "it removes the images of all idle slots, and each must be pulled again."
        )
        return Diagnosis(name, False, "keeps no image of a stopped application", advice)
    return Diagnosis(name, True, f"keeps the images of slots{_about_its_time(cleanup)}")


def _about_its_time(cleanup: Cleanup) -> str:
    """Empty if it runs when Botpool expects it. The server's time zone cannot be seen, so a
    difference may be all right."""
    daily = re.fullmatch(r"(\d{1,2}) (\d{1,2}) \* \* \*", cleanup.frequency)
    known = f"{int(daily[2]):02}:{int(daily[1]):02}" if daily else WORDS.get(cleanup.frequency)
    expected = [f"{datetime.min + time:%H:%M}" for time in settings.IMAGE_CLEANUP_TIMES]
    if not (cleanup.is_forced and cleanup.frequency) or known in expected:
        return ""
    return (
        f". It runs at {known or f'“{cleanup.frequency}”'} by the server's clock, and Botpool "
        f"expects it at {', '.join(expected) or 'no time'} UTC. If that is not the same, set "
        "IMAGE_CLEANUP_TIMES"
    )


def _builds(server: Server) -> Diagnosis:
    builds, name = server.concurrent_builds or 0, f"builds on {server.uuid}"
    if builds < JOB_WORKERS:
        return Diagnosis(name, True, f"{builds or 'an unknown number'} at a time")
    advice = (
        f"Set concurrent builds below {JOB_WORKERS}, or give Coolify more workers: deployments, "
        "stops and status updates share them, and stops would wait behind builds."
    )
    words = f"{builds} at a time, but Coolify has {JOB_WORKERS} workers by default"
    # Its workers cannot be seen, so this may be all right.
    return Diagnosis(name, True, f"{words}. {advice}")


# --- Notifications ----------------------------------------------------------------------------


def webhook_address() -> str:
    return f"{settings.PUBLIC_URL}/api/v1/coolify/webhook/{settings.COOLIFY_WEBHOOK_SECRET}"


def about_notifications(coolify: Coolify) -> Diagnosis:
    """Botpool works without them: it only notices failures some seconds later."""
    try:
        is_on = coolify.notifies_of_failures()
    except (WrongAddress, NotFound):
        return Diagnosis(WEBHOOK, None, "this version of Coolify does not show them")
    if is_on:
        return Diagnosis(WEBHOOK, True, "Coolify notifies a webhook of failed deployments")
    words = "off: Botpool notices failed deployments some seconds later without them"
    return Diagnosis(WEBHOOK, True, f"{words}. `manage.py doctor --fix` sets them up")


def set_up_notifications(coolify: Coolify) -> Diagnosis:
    """Point the webhook notifications of the token's team at this Botpool."""
    host = urlsplit(settings.PUBLIC_URL).hostname
    try:
        coolify.set_webhook(webhook_address())
    except Refused as error:
        if "webhook_url" not in error.errors:
            return Diagnosis(WEBHOOK, False, str(error), "Set them up in Coolify by hand.")
        advice = (
            f"If {host} is a private address, allow it in Coolify under Settings, Advanced (from "
            "4.2.0), then run this again."
        )
        return Diagnosis(WEBHOOK, False, f"Coolify refuses {host} as their address", advice)
    except CoolifyError as error:
        return Diagnosis(WEBHOOK, False, str(error), "Try again later, or set them up by hand.")
    return Diagnosis(WEBHOOK, True, f"set up: Coolify notifies {host} of failed deployments")
