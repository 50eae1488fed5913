"""Turn Coolify's answers into errors whose text helps an operator."""

from __future__ import annotations

import json
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import requests
import urllib3

from coolify.client.calls import Call
from coolify.client.errors import (
    AbilityMissing,
    AddressNotAllowed,
    ApiDisabled,
    CoolifyError,
    MalformedAnswer,
    MethodChanged,
    NotFound,
    RateLimited,
    Refused,
    RoleMissing,
    Unauthenticated,
    Unavailable,
    Unreachable,
    WrongAddress,
)
from coolify.client.parsing import time_from_now

# Coolify's limit is per minute.
DEFAULT_RETRY_AFTER = 60.0
# A header that asks for a longer wait is a mistake, and would stop the pool.
MAX_RETRY_AFTER = 3600.0

NOT_FOUND = re.compile(r"(?P<thing>\w[\w ]*?) not found\.?", re.IGNORECASE)
MISSING_ABILITY = re.compile(r"Missing required permissions?:\s*(?P<ability>[\w:, ]+)")


@dataclass(frozen=True)
class Reply:
    """A complete HTTP answer, whatever it contains."""

    status: int
    headers: Mapping[str, str]
    content: bytes

    def json(self) -> Any:
        """Return None if the content is not JSON."""
        try:
            return json.loads(self.content)
        except (ValueError, RecursionError):
            return None

    def number(self, header: str) -> int | None:
        try:
            return int(self.headers.get(header, ""))
        except ValueError:
            return None


def unreachable(call: Call, error: Exception, *, base_url: str) -> Unreachable:
    never_sent = _never_sent(error)
    advice = (
        "Nothing was sent. Is COOLIFY_API_URL correct, and is Coolify running?"
        if never_sent
        else "The request was sent, but its answer was lost."
    )
    return Unreachable(
        f"Coolify at {base_url} could not be reached to {call.purpose}: {_cause(error)}. {advice}",
        maybe_done=not never_sent and not call.only_reads,
    )


def fault_of(call: Call, reply: Reply) -> CoolifyError | None:
    """Return the error that this answer means, or None if it is a success."""
    if 200 <= reply.status < 300:
        return None
    if 300 <= reply.status < 400:
        return _redirected(call, reply)
    if reply.status >= 500 or reply.status == 408:
        return _server_error(call, reply)
    special = {
        401: _unauthenticated,
        403: _forbidden,
        404: _not_found,
        405: _method_changed,
        429: _rate_limited,
    }
    return special.get(reply.status, _refused)(call, reply)


def not_json(call: Call, reply: Reply) -> MalformedAnswer:
    found = "an HTML page" if b"<html" in reply.content[:2000].lower() else "not JSON"
    return MalformedAnswer(
        f"Coolify's answer to the call to {call.purpose} ({reply.status}) is {found}. Is "
        "COOLIFY_API_URL the address of the API, ending in /api/v1, with no login page or proxy in "
        "front of it?",
        status=reply.status,
        maybe_done=not call.only_reads and reply.status < 300,
    )


def field_errors(data: Any) -> dict[str, list[str]]:
    """Return Coolify's complaints by field; the key "" has those that name no field.

    Coolify sends an object of lists or of strings, a list, or a string.
    """
    if isinstance(data, dict):
        return {str(field): _texts(complaints) for field, complaints in data.items()}
    texts = _texts(data)
    return {"": texts} if texts else {}


def _never_sent(error: Exception) -> bool:
    if isinstance(error, requests.ConnectTimeout | requests.exceptions.SSLError):
        return True
    reason = getattr(error.args[0] if error.args else None, "reason", None)
    return isinstance(reason, urllib3.exceptions.NewConnectionError)


def _cause(error: Exception) -> str:
    if isinstance(error, requests.exceptions.SSLError):
        return _cause_in_tls(error)
    if isinstance(error, requests.ConnectTimeout):
        return "no connection within the timeout"
    timeouts = (requests.Timeout, urllib3.exceptions.TimeoutError)
    if isinstance(error, timeouts) or "timed out" in str(error):
        return "no complete answer within the timeout"
    if _never_sent(error):
        return "connection refused, or unknown host"
    return "the connection was lost"


def _cause_in_tls(error: requests.exceptions.SSLError) -> str:
    reason = getattr(error.args[0] if error.args else None, "reason", None)
    within = getattr(reason, "args", None) or (None,)
    if isinstance(within[0], ssl.SSLCertVerificationError):
        return "its TLS certificate is not trusted"
    return "the TLS handshake failed; it may serve http:// only"


def _redirected(call: Call, reply: Reply) -> WrongAddress:
    target = reply.headers.get("Location", "elsewhere").split("?")[0]
    return WrongAddress(
        f"Coolify redirects the call to {call.purpose} to {target}. Set COOLIFY_API_URL to the "
        "address that does not redirect (https instead of http, and ending in /api/v1).",
        status=reply.status,
    )


def _server_error(call: Call, reply: Reply) -> Unavailable:
    return Unavailable(
        f"Coolify answered the call to {call.purpose} with {reply.status}: it is restarting, "
        f"overloaded or broken. {_message(reply)}".strip(),
        status=reply.status,
        retry_after=_retry_after(reply),
        maybe_done=not call.only_reads,
    )


def _unauthenticated(call: Call, reply: Reply) -> Unauthenticated:
    return Unauthenticated(
        "Coolify does not accept the token (401). Create a new one in Coolify under "
        "Keys & Tokens, with the abilities read, write and deploy, and set COOLIFY_API_TOKEN.",
        status=reply.status,
    )


def _forbidden(call: Call, reply: Reply) -> CoolifyError:
    message = _message(reply)
    if "API is disabled" in message:
        return ApiDisabled(
            "Coolify's API is disabled. Enable it in Coolify under Settings, Advanced.",
            status=reply.status,
        )
    if "not allowed to access the API" in message:
        return AddressNotAllowed(
            "Coolify does not allow this machine's IP address to use its API. Add the address in "
            "Coolify under Settings, Advanced, Allowed IPs.",
            status=reply.status,
        )
    if "Missing required team role" in message:
        return RoleMissing(
            f"The user of the Coolify token may not {call.purpose}: since 4.2 that needs an "
            "admin of the team. Make that user an admin, or create a token as one.",
            status=reply.status,
        )
    if missing := MISSING_ABILITY.search(message):
        return _ability_missing(call, missing["ability"].strip())
    return _refused(call, reply)


def _ability_missing(call: Call, ability: str) -> AbilityMissing:
    return AbilityMissing(
        f"The Coolify token cannot {call.purpose}: it lacks the ability {ability}. Create a token "
        "with read, write and deploy (none of them implies another) and set COOLIFY_API_TOKEN.",
        ability=ability,
    )


def _not_found(call: Call, reply: Reply) -> CoolifyError:
    data = reply.json()
    if not isinstance(data, dict):
        # A proxy answers like this while Coolify restarts: it does not mean "gone".
        return Unavailable(
            f"The 404 for the call to {call.purpose} is not Coolify's own: a proxy in front of "
            "it answered, perhaps while Coolify restarts. If this persists, check COOLIFY_API_URL.",
            status=404,
        )
    found = NOT_FOUND.fullmatch(_message(reply))
    if found is None or "docs" in data:
        return WrongAddress(
            f"Coolify has no route for the call to {call.purpose}: COOLIFY_API_URL does not end "
            "in /api/v1, or this version of Coolify is too old or too new.",
            status=404,
        )
    thing = found["thing"].lower()
    return NotFound(f"Coolify has no such {thing}.", thing=thing)


def _method_changed(call: Call, reply: Reply) -> MethodChanged:
    return MethodChanged(
        f"This version of Coolify does not accept {call.method} for the call to {call.purpose} "
        f"(405). {_message(reply)} Botpool was tried with versions up to 4.3.",
        status=reply.status,
    )


def _rate_limited(call: Call, reply: Reply) -> RateLimited:
    seconds = _retry_after(reply)
    seconds = DEFAULT_RETRY_AFTER if seconds is None else seconds
    return RateLimited(
        f"Coolify refuses more calls for {seconds:.0f} s (429). If that happens often, lower "
        "COOLIFY_RATE_LIMIT, or give Botpool its own Coolify user: the limit is per user.",
        status=reply.status,
        retry_after=seconds,
    )


def _refused(call: Call, reply: Reply) -> CoolifyError:
    data = reply.json()
    if data is None:
        return not_json(call, reply)
    errors = field_errors(data.get("errors", data.get("error")) if isinstance(data, dict) else data)
    message = _message(reply)
    details = "; ".join(
        f"{field}: {' '.join(texts)}" if field else " ".join(texts)
        for field, texts in errors.items()
    )
    text = " ".join(part for part in (message, details) if part)
    return Refused(
        f"Coolify refused the call to {call.purpose} ({reply.status}): "
        f"{text or 'it did not say why'}",
        status=reply.status,
        message=message,
        errors=errors,
    )


def _message(reply: Reply) -> str:
    data = reply.json()
    message = data.get("message") if isinstance(data, dict) else None
    return message.strip()[:500] if isinstance(message, str) else ""


def _texts(complaints: Any) -> list[str]:
    if complaints is None:
        return []
    if isinstance(complaints, list):
        return [str(complaint) for complaint in complaints]
    return [str(complaints)]


def _retry_after(reply: Reply) -> float | None:
    header = reply.headers.get("Retry-After", "").strip()
    if not header:
        return None
    try:
        seconds = float(header)
    except ValueError:
        seconds = _seconds_until(header)
    # `nan` counts as the default.
    return min(max(seconds, 0.0), MAX_RETRY_AFTER) if seconds == seconds else DEFAULT_RETRY_AFTER


def _seconds_until(header: str) -> float:
    distance = time_from_now(header)
    return DEFAULT_RETRY_AFTER if distance is None else distance.total_seconds()
