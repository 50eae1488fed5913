"""The process that carries one message to a service with Apprise, run as
`python -m dashboard.notifications.courier`.

A process of its own, because Apprise is called with addresses that operators enter: it can be ended
when its time is up, it knows no secret but the one address, and a guard that Python itself calls
refuses connections to private addresses (also after a redirect, or when a name changes its
address), programs, and files other than Python's own.

Reads a job as JSON from stdin, and writes a result to stdout. It never prints the address.
"""

import json
import logging
import os
import re
import signal
import sys
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote

import apprise
import requests
from apprise.common import NotifyFormat, PersistentStoreMode
from requests.adapters import HTTPAdapter

from api.webhooks.addresses import PRIVATE_ADDRESS, is_public

TIME_LIMIT = 10  # seconds
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_TRUNC
_PROGRAMS = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork", "pty.spawn")
# Not our own folder, which may hold generated secrets: what is needed of it is loaded already.
_READABLE = (
    *(os.path.realpath(sys.prefix) + os.sep, os.path.realpath(sys.base_prefix) + os.sep),
    *("/usr/", "/etc/ssl/", "/etc/pki/", "/etc/mime.types", "/dev/urandom"),
)


class Refused(OSError):
    """The guard refused it."""


class Witness(logging.Handler):
    """Notes why a message was not delivered: Apprise itself only says that it was not."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.refused = self.http = self.said = ""

    def emit(self, record: logging.LogRecord) -> None:
        self.said = record.getMessage()

    def words(self, url: str) -> str:
        return self.refused or self.http or _masked(self.said, url) or "It was not accepted."


def guard(witness: Witness, *, allow_private: bool) -> Callable[[str, tuple[Any, ...]], None]:
    def check(event: str, given: tuple[Any, ...]) -> None:
        if event in ("socket.connect", "socket.sendto"):
            if not allow_private and not _is_allowed(given[1]):
                witness.refused = PRIVATE_ADDRESS
                raise Refused(PRIVATE_ADDRESS)
        elif event == "open" and not _is_readable(given[0], given[2]):
            raise Refused("A message needs no files.")
        elif event in _PROGRAMS:
            raise Refused("A message needs no programs.")

    return check


def _is_allowed(address: Any) -> bool:
    return isinstance(address, tuple) and is_public(str(address[0]))


def _is_readable(path: Any, flags: Any) -> bool:
    if isinstance(path, int):
        return True  # it is open already
    if isinstance(flags, int) and flags & _WRITES:
        return False
    return os.path.realpath(os.fsdecode(path)).startswith(_READABLE)


def watch_http(witness: Witness) -> None:
    send = HTTPAdapter.send

    def watched(self: HTTPAdapter, *given: Any, **options: Any) -> requests.Response:
        try:
            response = send(self, *given, **options)
        except requests.exceptions.SSLError:
            witness.http = "Its certificate is not valid."
            raise
        except requests.exceptions.Timeout:
            witness.http = "It did not answer in time."
            raise
        except requests.exceptions.ConnectionError:
            witness.http = "It cannot be reached."
            raise
        witness.http = _about(response)
        return response

    HTTPAdapter.send = watched  # type: ignore[method-assign]


def _about(response: requests.Response) -> str:
    if response.is_redirect:
        return f"It answered {response.status_code}, a redirect, which is not followed."
    return "" if response.ok else f"It answered {response.status_code} {response.reason}."


def _masked(text: str, url: str) -> str:
    """Without the parts of the address, most of which are secrets."""
    for part in sorted(re.split(r"[/:@?&=#]+", unquote(url)), key=len, reverse=True):
        if len(part) > 3:
            text = text.replace(part, "…")
    return " ".join(text.split())[:300]


def carry(job: dict[str, Any]) -> dict[str, Any]:
    witness = Witness()
    logging.getLogger("apprise").addHandler(witness)
    watch_http(witness)
    sys.addaudithook(guard(witness, allow_private=job["allow_private"]))
    asset = apprise.AppriseAsset(
        app_id="Botpool", app_desc="Botpool", app_url=job["home"], async_mode=False,
        secure_logging=True, storage_mode=PersistentStoreMode.MEMORY, plugin_paths=[],
        http_redirects=False,
    )  # fmt: skip
    service = apprise.Apprise.instantiate(job["url"], asset=asset, suppress_exceptions=True)
    if service is None:
        return {"sent": False, "error": "The address is not complete, or not valid."}
    if not job["body"]:
        return {"sent": True, "error": ""}  # only to be checked
    carrier = apprise.Apprise(asset=asset)
    carrier.add(service)
    sent = carrier.notify(title=job["title"], body=job["body"], body_format=NotifyFormat.TEXT)
    return {"sent": bool(sent), "error": "" if sent else witness.words(job["url"])}


def main() -> None:
    signal.alarm(TIME_LIMIT + 2)  # if the process that waits for this one has died
    sys.dont_write_bytecode = True
    logging.raiseExceptions = False
    logging.getLogger().addHandler(logging.NullHandler())
    answer = carry(json.load(sys.stdin))
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main()
