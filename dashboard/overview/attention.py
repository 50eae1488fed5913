"""What needs an operator's attention now, with the next step for each."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from urllib.parse import urlencode

from django.conf import settings
from django.db.models import QuerySet
from django.db.models.functions import Now
from django.urls import reverse

from bots.models import WebhookEndpoint
from core.jobs.ticker import LEASE as TICKER
from core.leases import IS_HELD, Lease
from dashboard.notifications.records import failing_channels
from dashboard.overview.cards import Card
from dashboard.overview.codes import AttentionCode
from dashboard.overview.headline import Line
from dashboard.overview.health import Part
from pool.failures.recent import failing_slots
from pool.images.overview import ImageState, image_overviews
from pool.waiting.words import name_of
from servers.health import ServerState
from servers.models import Server
from slots.finding import Finding, FindingKind
from slots.locks import slots_of_leases
from slots.models import Slot
from slots.status import SlotStatus

_REMEDIES = {
    AttentionCode.WORKER_GONE: "Start one with manage.py worker and check its log.",
    AttentionCode.TICKER_GONE: "Start one with manage.py ticker and check its log.",
    AttentionCode.COOLIFY_AWAY: "Check that Coolify is up. Meetings go on.",
    AttentionCode.CALLS_PAUSED: "If this lasts, check what else uses this Coolify.",
}
LEASE_PATIENCE = timedelta(minutes=2)
_FINDINGS: dict[str, tuple[AttentionCode, str]] = {
    FindingKind.TOO_MANY: (
        AttentionCode.REPAIRS_HELD_BACK,
        "Compare with Coolify, then approve the repairs that are right. They pass by themselves "
        "if their evidence goes away.",
    ),
    FindingKind.UNHEARD: (
        AttentionCode.BOTS_UNHEARD,
        "Check from a worker's machine that the address answers: DNS, NAT, firewall, "
        "certificate. Until then a silent bot fails only if its container is gone, too.",
    ),
}


# More of the same would hide the rest.
MOST_FAILING = 5


@dataclass(frozen=True, kw_only=True)
class Attention:
    """`code`, `platform` and `subject` identify it, however its words change. `button` and `does`:
    the words on a button, and the action that it leads to."""

    code: AttentionCode
    platform: str = ""
    subject: str = ""
    words: str
    next_step: str
    link: str
    button: str = ""
    does: str = ""
    needs_administrator: bool = False


def what_needs_attention(
    *, cards: list[Card], health: Iterable[Part], lines: Sequence[Line] = ()
) -> list[Attention]:
    late = {line.platform for line in lines if line.at_risk}
    of_pools = (each for card in cards for each in _of_pool(card, is_late=card.platform in late))
    return [
        *_faults(health),
        *_of_passes(),
        *_of_servers(),
        *_of_images(),
        *_late_waiters(cards, lines),
        *_failing(),
        *of_pools,
        *_disabled_webhooks(),
        *_failing_channels(),
        *_leases(),
    ]


def _action(name: str, **given: str) -> str:
    return f"{reverse('action', args=[name])}?{urlencode({**given, 'next': reverse('overview')})}"


def _failing() -> Iterator[Attention]:
    """Slots whose starts fail again and again, and those that are out of service for it."""
    quarantined = {slot.pk: slot for slot in Slot.objects.filter(quarantined=True).order_by("name")}
    for slot in quarantined.values():
        yield Attention(
            code=AttentionCode.SLOT_QUARANTINED,
            platform=slot.platform,
            subject=slot.name,
            words=f"{slot.name} is quarantined: its starts failed again and again",
            next_step="Read its history, recreate it if needed, then end the quarantine.",
            link=reverse("slot", args=[slot.name]),
            button="End quarantine",
            does=_action("uncordon", item=str(slot.pk)),
        )
    for failing in failing_slots()[:MOST_FAILING]:
        if failing.slot_id not in quarantined:
            yield Attention(
                code=AttentionCode.SLOT_FAILING,
                subject=failing.name,
                words=failing.words,
                next_step="Take it out of service if others start well.",
                link=reverse("slot", args=[failing.name]),
                button="Cordon",
                does=_action("cordon", item=str(failing.slot_id)),
            )


def _late_waiters(cards: list[Card], lines: Iterable[Line]) -> Iterator[Attention]:
    by_platform = {card.platform: card for card in cards}
    for line in lines:
        if line.at_risk:
            bots = f"{line.at_risk} bot{'s' * (line.at_risk > 1)}"
            yield _with_help(
                by_platform[line.platform],
                code=AttentionCode.BOTS_GIVE_UP,
                words=f"{line.platform.label}: {bots} will give up before their turn",
            )


def _with_help(card: Card, *, code: AttentionCode, words: str) -> Attention:
    """What gives more slots: a resume, slots back in service, else a larger pool."""
    platform = card.platform.value
    filters = {"platform": platform}
    queue = f"{reverse('queue')}?{urlencode(filters)}"
    entry = partial(Attention, code=code, platform=platform, words=words)
    errors = dict(card.counts)["error"]
    if card.paused is not None:
        return entry(
            next_step="The platform is paused: resume it.",
            link=queue,
            button="Resume",
            does=_action("resume", item=platform),
        )
    if card.cordoned:
        return entry(
            next_step=f"{_slots(card.cordoned)} cordoned: uncordon those that can be used.",
            link=f"{reverse('slots')}?{urlencode({**filters, 'cordoned': 'yes'})}",
            button="Uncordon",
            does=_action("uncordon", all="slots", cordoned="yes", **filters),
        )
    if errors:
        return entry(
            next_step=f"{_slots(errors)} in error: retry or recreate these first.",
            link=f"{reverse('slots')}?{urlencode({**filters, 'status': 'error'})}",
            button="Retry",
            does=_action("retry", all="slots", status="error", **filters),
        )
    return entry(
        next_step=f"{_full(card.maximum)}: make the pool larger if the servers have room.",
        link=queue,
        button="Change size",
        does=_action("resize", item=platform, size=str(card.maximum)),
        needs_administrator=True,
    )


def _full(maximum: int) -> str:
    return f"All {maximum} slots are in use" if maximum else "The pool may have no slot"


def _slots(number: int) -> str:
    return f"{number} slot{'s are' if number > 1 else ' is'}"


def _of_servers() -> Iterator[Attention]:
    bad = (ServerState.UNREACHABLE, ServerState.DEGRADED)
    ours = Server.objects.filter(uuid__in=settings.COOLIFY_SERVER_UUIDS, state__in=bad)
    for server in ours.order_by("name"):
        is_away = server.state == ServerState.UNREACHABLE
        yield Attention(
            code=AttentionCode.SERVER_UNREACHABLE if is_away else AttentionCode.SERVER_DEGRADED,
            subject=server.uuid,
            words=f"Server {server} is {server.state}: {server.state_reason}",
            next_step="Repair it, or drain it if it stays away."
            if is_away
            else "Read why starts fail there.",
            link=reverse("servers"),
            button="Drain" if is_away else "",
            does=_action("drain-server", item=server.uuid) if is_away else "",
        )


def _of_images() -> Iterator[Attention]:
    for each in image_overviews():
        row, name = each.row, each.row.get_platform_display()
        if each.state == ImageState.PULL_FAILED:
            yield Attention(
                code=AttentionCode.IMAGE_PULL_FAILED,
                platform=row.platform,
                words=f"{name}: {row.wanted} could not be pulled. {each.failed[0].detail}",
                next_step=f"Bots go on with {row.image}. Check the tag and the registry, then warm "
                "the image again, or name another one.",
                link=reverse("servers"),
                button="Warm again",
                does=_action("warm-image", item=each.failed[0].server_uuid, image=row.wanted),
            )
        elif each.state == ImageState.RESTORED:
            yield Attention(
                code=AttentionCode.IMAGE_RESTORED,
                platform=row.platform,
                words=f"{name} uses {row.image} instead of {row.named}, restored by "
                f"{name_of(row.restored_by)}: {row.restored_reason}",
                next_step="Name a good image in the environment, or follow it again.",
                link=reverse("servers"),
                button="Follow again",
                does=_action("follow-image", item=row.platform),
            )


def shown_findings() -> QuerySet[Finding]:
    """What the reconciler says of its own passes."""
    return Finding.objects.filter(kind__in=_FINDINGS, ended_at=None).order_by("pk")


def _of_passes() -> Iterator[Attention]:
    for finding in shown_findings():
        error = finding.evidence.get("error")
        code, next_step = _FINDINGS[finding.kind]
        yield Attention(
            code=code,
            platform=finding.platform,
            subject=finding.subject,
            words=_words(finding) + (f" ({error})" if error else ""),
            next_step=next_step,
            link=f"{reverse('activity')}?show=repairs",
        )


def _words(finding: Finding) -> str:
    held = finding.kind == FindingKind.TOO_MANY
    return f"Repairs are held back. {finding.reason}" if held else finding.reason


def leases_in_vain() -> QuerySet[Lease]:
    """Leases that other processes have tried to acquire for too long."""
    held = Lease.objects.filter(IS_HELD, refused_since__lt=Now() - LEASE_PATIENCE)
    return held.exclude(key=TICKER).order_by("key")


def _leases() -> Iterator[Attention]:
    found = list(leases_in_vain()[:20])
    slots = slots_of_leases(found)
    for lease in found:
        yield Attention(
            code=AttentionCode.LEASE_HELD,
            subject=lease.key,
            words=f"The lease {slots.get(lease.key, lease.key)} is held by {lease.holder}, and "
            "others have tried for minutes to acquire it",
            next_step="If that process hangs, break the lease. The next one takes over.",
            link=f"{reverse('activity')}?show=leases",
            button="Break lease",
            does=_action("break-lease", item=lease.key),
            needs_administrator=True,
        )


def _disabled_webhooks() -> Iterator[Attention]:
    disabled = WebhookEndpoint.objects.filter(disabled_at__isnull=False)
    for endpoint in disabled.select_related("api_key").order_by("disabled_at")[:20]:
        yield Attention(
            code=AttentionCode.WEBHOOK_DISABLED,
            subject=str(endpoint.pk),
            words=f"Webhooks of {endpoint.api_key} are disabled: {endpoint.disabled_because}",
            next_step="Its events are kept. Tell its owner, and enable it when it works.",
            link=reverse("webhook", args=[endpoint.pk]),
        )


def _failing_channels() -> Iterator[Attention]:
    for channel in failing_channels():
        yield Attention(
            code=AttentionCode.CHANNEL_FAILING,
            subject=str(channel.pk),
            words=f"Notifications to {channel.name} fail: {channel.last_error}",
            next_step="Correct its address, then send a test.",
            link=reverse("notifications"),
        )


def _faults(health: Iterable[Part]) -> Iterator[Attention]:
    for part in health:
        if not part.is_well:
            yield Attention(
                code=part.code,
                words=f"{part.name}: {part.words}{part.detail}",
                next_step=part.next_step or _REMEDIES[part.code],
                link=part.link or f"{reverse('activity')}?show=parts",
                button=part.button,
                does=_action(part.action, item=part.item) if part.action else "",
            )


def _commonest_error(card: Card) -> str:
    errors = Slot.objects.filter(platform=card.platform, status=SlotStatus.ERROR).exclude(error="")
    counted = Counter(errors.values_list("error", flat=True)).most_common(1)
    return f": {counted[0][0][:160]}" if counted else ""


def _of_pool(card: Card, *, is_late: bool) -> Iterator[Attention]:
    name, entry = card.platform.label, partial(Attention, platform=card.platform.value)
    errors = dict(card.counts)["error"]
    if errors:
        filters = urlencode({"platform": card.platform.value, "status": "error"})
        yield entry(
            code=AttentionCode.SLOTS_IN_ERROR,
            words=f"{name}: {errors} slot{'s' * (errors > 1)} in error{_commonest_error(card)}",
            next_step="Remove the cause, then retry or recreate.",
            link=f"{reverse('slots')}?{filters}",
            button="Retry",
            does=_action("retry", all="slots", platform=card.platform.value, status="error"),
        )
    if card.stop_problems:
        number = card.stop_problems
        yield entry(
            code=AttentionCode.STOP_FAILS,
            words=f"{name}: {number} slot{'s' * (number > 1)} whose container does not stop",
            next_step="Read the slot's page, then check Docker on its server.",
            link=f"{reverse('slots')}?{urlencode({'platform': card.platform.value})}",
        )
    if card.paused is not None:
        yield entry(
            code=AttentionCode.PLATFORM_PAUSED,
            words=f"{name} is paused by {name_of(card.paused.paused_by)}: "
            f"{card.paused.pause_reason}",
            next_step="Resume it when the reason is gone.",
            link=f"{reverse('maintenance')}#drain-{card.platform.value}",
            button="Resume",
            does=_action("resume", item=card.platform.value),
        )
    elif card.waiting and not card.free and not is_late:
        yield _with_help(
            card,
            code=AttentionCode.NO_SLOT_FREE,
            words=f"{name}: {card.waiting} waiting, no slot is free",
        )
