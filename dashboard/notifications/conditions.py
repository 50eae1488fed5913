"""Which conditions hold now: what the overview shows, and facts that it does not."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import Count, Q
from django.db.models.functions import Now

from bots.models import Bot
from bots.status import BotStatus, Platform
from coolify.budget.report import budget_report
from dashboard.notifications.records import Condition
from dashboard.overview.attention import Attention, what_needs_attention
from dashboard.overview.cards import Card, cards
from dashboard.overview.codes import AttentionCode
from dashboard.overview.headline import waiting_lines
from dashboard.overview.health import health

# Bots that ended in this time decide whether a platform fails.
FAILURES_OF = timedelta(minutes=15)
FEWEST_FAILURES = 3
# A condition that was not seen for this long is over: one that flickers is one condition.
SETTLED_AFTER = timedelta(minutes=1)


@dataclass(frozen=True, kw_only=True)
class Seen:
    code: str
    platform: str
    subject: str
    words: str
    link: str

    @property
    def identity(self) -> tuple[str, str, str]:
        return self.code, self.platform, self.subject


def conditions_now(*, now: datetime) -> list[Seen]:
    shown = cards()
    needs = what_needs_attention(
        cards=shown, health=health(budget_report()), lines=waiting_lines(shown)
    )
    found = [*map(_seen, needs), *_failing_platforms(), *_slow_queues(shown, now)]
    return list({each.identity: each for each in found}.values())


def _seen(attention: Attention) -> Seen:
    return Seen(
        code=attention.code.value,
        platform=attention.platform,
        subject=attention.subject[:200],
        words=attention.words,
        link=attention.link[:500],
    )


def _failing_platforms() -> Iterator[Seen]:
    ended = Bot.objects.filter(
        ended_at__gt=Now() - FAILURES_OF, status__in=[BotStatus.DONE, BotStatus.FAILED]
    )
    failed = Count("pk", filter=Q(status=BotStatus.FAILED))
    rows = ended.values_list("platform").order_by("platform").annotate(failed=failed, n=Count("pk"))
    for platform, failures, bots in rows:
        enough = 100 * failures >= settings.NOTIFY_FAILURE_PERCENT * bots
        if failures >= FEWEST_FAILURES and enough:
            yield Seen(
                code=AttentionCode.BOTS_FAILING.value,
                platform=platform,
                subject="",
                words=f"{Platform(platform).label}: {failures} of the {bots} bots that ended in "
                f"the last {FAILURES_OF // timedelta(minutes=1)} min failed",
                link=f"/bots/?status=FAILED&platform={platform}",
            )


def _slow_queues(shown: Iterable[Card], now: datetime) -> Iterator[Seen]:
    for card in shown:
        if card.oldest is not None and now - card.oldest > settings.NOTIFY_QUEUE_WAIT:
            limit = round(settings.NOTIFY_QUEUE_WAIT.total_seconds())
            yield Seen(
                code=AttentionCode.QUEUE_SLOW.value,
                platform=card.platform.value,
                subject="",
                words=f"{card.platform.label}: a bot has waited for a slot for more than {limit} s "
                f"({card.waiting} waiting)",
                link=f"/queue/?platform={card.platform.value}",
            )


# --- The rows -----------------------------------------------------------------------------------


def note_conditions(seen: Iterable[Seen], *, now: datetime) -> None:
    """Open, keep and end conditions. The caller holds the lock of evaluations."""
    known = {each.identity: each for each in Condition.objects.filter(resolved_at=None)}
    for each in seen:
        row = known.pop(each.identity, None)
        if row is None:
            _open(each, now=now)
        else:
            Condition.objects.filter(pk=row.pk).update(
                words=each.words, link=each.link, last_seen_at=now
            )
    settled = [row.pk for row in known.values() if now - row.last_seen_at >= SETTLED_AFTER]
    Condition.objects.filter(pk__in=settled).update(resolved_at=now)


def _open(seen: Seen, *, now: datetime) -> None:
    Condition.objects.create(
        code=seen.code,
        platform=seen.platform,
        subject=seen.subject,
        words=seen.words,
        link=seen.link,
        first_seen_at=now,
        last_seen_at=now,
    )
