"""Refused access: a token that Coolify refused is not tried again and again.

Coolify refuses every call of a token after 30 answers of 401 or 403 in a minute. So what it refused
once is not sent again, until the token changes or an operator allows a new try. The exception is
one call in ten minutes: a Coolify that was restored, or a user who is an admin again, is noticed.
A disabled API and a refused address are not the token's fault: those are tried again sooner.

Only a try that is refused again makes the others wait. One that is not sent after all, hangs or
fails for any other reason shows nothing, and another call may try after COOLIFY_PROBE_PAUSE.
"""

from __future__ import annotations

import hashlib
from datetime import datetime, timedelta

from django.conf import settings
from django.db.models.functions import Now

from coolify.client.calls import Call
from coolify.client.errors import (
    AbilityMissing,
    AccessRefused,
    AddressNotAllowed,
    ApiDisabled,
    CoolifyError,
    NotFound,
    Refused,
    RoleMissing,
    Unauthenticated,
)
from coolify.models import Refusal
from core.clock import database_now

EVERYTHING = "everything"
DEPLOYS = ("start", "stop", "cancel_deployment")
# Between two calls that try again what is the token's fault.
TOKENS_FAULT = timedelta(minutes=10)
# Of other faults, the first pause is COOLIFY_PROBE_PAUSE. It doubles with each try that is refused,
# up to this many times as long.
LONGEST_PAUSE = 6
# In seconds. Sooner than the next try: an operator may allow it, or another call may succeed.
COME_BACK = 60.0


def fingerprint(base_url: str, token: str) -> str:
    """Names a token without containing it."""
    return hashlib.sha256(f"{base_url} {token}".encode()).hexdigest()[:16]


def require_access(call: Call, token: str) -> bool:
    """Raise AccessRefused if such a call was refused. True if this call may try again."""
    kinds = (_ability(call), EVERYTHING)
    found = list(Refusal.objects.filter(token=token, ability__in=kinds).order_by("since"))
    if not found:
        return False
    now = database_now()
    for refusal in found:
        if refusal.probe_at is None or refusal.probe_at > now:
            raise _not_sent(call, refusal, now=now)
    for refusal in found:
        if not _probes(refusal):
            raise _not_sent(call, refusal, now=now)
    return True


def note_answer(call: Call, error: CoolifyError | None, token: str, *, was_probe: bool) -> None:
    """Remember a refusal of access, or forget it if a new try was let in."""
    ability = _refused_ability(call, error)
    if ability is not None and was_probe:
        _remember_try(token, ability, error)
    elif ability is not None:
        _remember(token, ability, error)
    elif was_probe and (error is None or isinstance(error, NotFound | Refused)):
        Refusal.objects.filter(token=token, ability__in=(_ability(call), EVERYTHING)).delete()


def _remember(token: str, ability: str, error: CoolifyError | None) -> None:
    Refusal.objects.exclude(token=token).delete()
    first = {"reason": str(error), "probe_at": database_now() + _pause(error, tries=0)}
    Refusal.objects.get_or_create(token=token, ability=ability, defaults=first)


def _remember_try(token: str, ability: str, error: CoolifyError | None) -> None:
    """Nothing is left to remember if another call was let in meanwhile."""
    for refusal in Refusal.objects.filter(token=token, ability=ability):
        tries = refusal.probes + 1
        Refusal.objects.filter(pk=refusal.pk).update(
            reason=str(error), probes=tries, probe_at=Now() + _pause(error, tries=tries)
        )


def _pause(error: CoolifyError | None, *, tries: int) -> timedelta:
    if not isinstance(error, ApiDisabled | AddressNotAllowed):
        return TOKENS_FAULT
    first: timedelta = settings.COOLIFY_PROBE_PAUSE
    return first * min(2**tries, LONGEST_PAUSE)


def refusals(token: str) -> list[Refusal]:
    return list(Refusal.objects.filter(token=token).order_by("since"))


def allow_access() -> int:
    """Let calls that were refused try again; how many kinds of them there were."""
    return Refusal.objects.all().delete()[0]


def _probes(refusal: Refusal) -> bool:
    """True for one of the calls that find the probe due; the others wait for its answer."""
    due = Refusal.objects.filter(pk=refusal.pk, probe_at=refusal.probe_at)
    return bool(due.update(probe_at=Now() + settings.COOLIFY_PROBE_PAUSE))


def _not_sent(call: Call, refusal: Refusal, *, now: datetime) -> AccessRefused:
    left = (refusal.probe_at - now).total_seconds() if refusal.probe_at else COME_BACK
    return AccessRefused(
        f"The call to {call.purpose} was not sent, because Coolify refused it before: "
        f"{refusal.reason}",
        retry_after=min(max(left, 1.0), COME_BACK),
        reason="access",
    )


def _ability(call: Call) -> str:
    if call.only_reads:
        return "read"
    return "deploy" if call.name in DEPLOYS else "write"


def _refused_ability(call: Call, error: CoolifyError | None) -> str | None:
    if isinstance(error, AbilityMissing | RoleMissing):
        return _ability(call)
    if isinstance(error, Unauthenticated | ApiDisabled | AddressNotAllowed):
        return EVERYTHING
    return None
