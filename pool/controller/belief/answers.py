"""Whether an answer of Coolify may be believed.

To a token of another team our applications do not exist, and its lists are empty or strange. A
Coolify that was restored from an old backup shows our project, but not what was created since. So
"not found" is believed only if Coolify shows our project, lacks few of our applications, and does
not list the one in question; or if it shows our project and an operator approved that. What Coolify
does show of an application of ours is believed, unless it cannot reach the application's server:
then its status is out of date.
"""

from collections.abc import Collection

from django.conf import settings

from coolify.client import Coolify
from coolify.client.errors import NotFound
from coolify.client.resources import Application
from pool.controller.belief.doubts import (
    KINDS,
    Doubt,
    NotBelieved,
    end_doubts,
    is_doubted,
    note_doubt,
    open_doubt,
    recent_doubt,
)
from slots.finding import Finding, FindingKind
from slots.models import Slot

# So many may always be missing or wrong, however small the pool.
ALWAYS_ALLOWED = 2


def is_too_many(count: int, *, of: int) -> bool:
    return count > ALWAYS_ALLOWED and 100 * count > settings.RECONCILE_MAX_PERCENT * of


def status_is_current(application: Application) -> bool:
    return application.server_reachable is not False


# --- Nothing follows from an answer that is not believed ---------------------------------------


def require_gone(coolify: Coolify, uuid: str) -> None:
    """Coolify says that it has no such application, or refuses to know our project. Raise
    NotBelieved, or another CoolifyError, unless that may be believed."""
    if _operator_says_that_it_is_gone(uuid):
        require_our_project(coolify)
        return
    if doubt := recent_doubt():
        raise doubt.error
    require_our_project(coolify)
    listed = believed_list(coolify)
    if any(application.uuid == uuid for application in listed):
        raise NotBelieved("Coolify lists the application, but says that it does not exist.")


def _operator_says_that_it_is_gone(uuid: str) -> bool:
    found = Finding.objects.filter(kind=FindingKind.APPLICATION_GONE, ended_at=None)
    approved = found.filter(evidence__application=uuid, approved_at__isnull=False)
    return any(finding.is_approved for finding in approved)


def require_our_project(coolify: Coolify) -> None:
    _require_no_doubt(doubt_about_project(coolify))


def require_no_deployment(coolify: Coolify, application_uuid: str) -> None:
    """Coolify says that it has no such deployment: believed if it shows the application. Raises
    NotFound if it has no such application either."""
    coolify.application(application_uuid)


def believed_list(coolify: Coolify) -> list[Application]:
    """All applications. Raises NotBelieved if too many of ours are missing."""
    known = known_applications()
    listed = coolify.applications()
    _require_no_doubt(doubt_about_list(known, {each.uuid for each in listed}))
    return listed


def _require_no_doubt(doubt: Doubt | None) -> None:
    if doubt is not None:
        note_doubt(doubt)
        raise doubt.error


# --- What there is to doubt --------------------------------------------------------------------


def known_applications() -> dict[str, str]:
    """The slots' names by their applications. To be read before Coolify's list is: an application
    that is created in between is then no missing one."""
    slots = Slot.objects.exclude(coolify_uuid="").order_by("name")
    return dict(slots.values_list("coolify_uuid", "name"))


def doubt_about_list(known: dict[str, str], listed: Collection[str]) -> Doubt | None:
    missing = [name for uuid, name in known.items() if uuid not in listed]
    if is_too_many(len(missing), of=len(known)):
        # We asked Coolify to delete these, and its answer may have been lost. One that has a bot
        # again was not deleted.
        unused = Slot.objects.filter(name__in=missing, assigned_bot=None)
        deleted = unused.filter(deletion_asked_at__isnull=False)
        asked_for = set(deleted.values_list("name", flat=True))
        missing = [name for name in missing if name not in asked_for]
    if not is_too_many(len(missing), of=len(known)):
        return None
    return Doubt(
        kind=FindingKind.SHORT_LIST,
        reason=f"Coolify's list lacks the applications of {len(missing)} of {len(known)} slots",
        check="Check that COOLIFY_API_TOKEN belongs to the right team, that Coolify was not "
        "restored from an old backup, and whether they were deleted there: then approve that.",
        evidence={"missing": missing},
    )


def doubt_about_project(coolify: Coolify) -> Doubt | None:
    project = settings.COOLIFY_PROJECT_UUID
    try:
        coolify.environments(project)
    except NotFound:
        return Doubt(
            kind=FindingKind.WRONG_TEAM,
            reason=f"Coolify does not show our project {project}",
            check="Check that COOLIFY_API_TOKEN belongs to the team of COOLIFY_PROJECT_UUID, and "
            "that the project exists.",
            evidence={"project": project},
        )
    return None


def review(coolify: Coolify, *, known: dict[str, str], listed: Collection[str]) -> Doubt | None:
    """Judge Coolify by its list and, if that lacks anything of ours or there was a doubt before, by
    our project. Note the doubt, or end the one that there was."""
    doubt = None
    if any(uuid not in listed for uuid in known) or open_doubt():
        doubt = doubt_about_project(coolify) or doubt_about_list(known, listed)
    if doubt is None:
        end_doubts()
    else:
        note_doubt(doubt)
    return doubt


def review_list(*, known: dict[str, str], listed: Collection[str]) -> Doubt | None:
    """Judge the list alone, which costs no call. A list without any of our applications cannot
    prove that we see our team: that doubt stays."""
    doubt = doubt_about_list(known, listed)
    if shows_ours(known, listed):
        end_doubts([FindingKind.WRONG_TEAM] if doubt else KINDS)
    if doubt is not None and not is_doubted(FindingKind.WRONG_TEAM):
        note_doubt(doubt)
    return doubt


def shows_ours(known: dict[str, str], listed: Collection[str]) -> bool:
    return any(uuid in listed for uuid in known)
