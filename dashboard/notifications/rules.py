"""What is due to be told, by the rules. Pure: reads no rows, sends nothing.

Level-triggered: the answer follows from the state alone. What cannot be told now, in quiet hours or
because a channel had a message a moment ago, is told later if it still holds.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, time
from enum import StrEnum
from zoneinfo import ZoneInfo

from dashboard.notifications.records import Condition, Notice, NotificationRule
from dashboard.overview.codes import Severity


class News(StrEnum):
    NEW = "new"
    STILL = "still"
    RESOLVED = "resolved"


@dataclass(frozen=True, kw_only=True)
class Item:
    """One thing to tell, one line of a message."""

    news: News
    condition: Condition


def due_items(
    *,
    conditions: Iterable[Condition],
    told: Mapping[int, Notice],  # by the condition's id
    rules: Iterable[NotificationRule],
    channel_id: int,
    now: datetime,
) -> Iterator[Item]:
    """What this channel should be told now; the most severe first."""
    own = [rule for rule in rules if rule.enabled and _goes_to(rule, channel_id)]
    ranks = list(Severity)
    for condition in sorted(conditions, key=lambda each: ranks.index(each.severity)):
        heard = [rule for rule in own if _applies(rule, condition, now)]
        news = _news(condition, told.get(condition.pk), heard, now)
        if news is not None:
            yield Item(news=news, condition=condition)


def _goes_to(rule: NotificationRule, channel_id: int) -> bool:
    return not rule.channels or channel_id in rule.channels


def _applies(rule: NotificationRule, condition: Condition, now: datetime) -> bool:
    return (
        (not rule.codes or condition.code in rule.codes)
        and rule.severity in ("", condition.severity)
        and rule.platform in ("", condition.platform)
        and not is_quiet(rule, condition.severity, now)
    )


def is_quiet(rule: NotificationRule, severity: Severity, now: datetime) -> bool:
    """By the clock on the wall of the rule's zone, also on the days on which it is changed."""
    if rule.quiet_from is None or rule.quiet_until is None:
        return False
    if severity == Severity.URGENT and rule.urgent_anyway:
        return False
    return _is_between(rule.quiet_from, rule.quiet_until, now.astimezone(ZoneInfo(rule.zone)))


def _is_between(begin: time, end: time, local: datetime) -> bool:
    at = local.time()
    return begin <= at < end if begin <= end else at >= begin or at < end


def _news(
    condition: Condition, notice: Notice | None, rules: list[NotificationRule], now: datetime
) -> News | None:
    if condition.resolved_at is not None:
        tells = notice is not None and notice.said == Notice.Said.OPEN
        return News.RESOLVED if tells and any(rule.tell_resolved for rule in rules) else None
    lasting = [rule for rule in rules if condition.lasted(at=now) >= rule.lasting]
    if notice is None:
        return News.NEW if lasting else None
    since = now - notice.at
    repeats = any(rule.repeat is not None and since >= rule.repeat for rule in lasting)
    return News.STILL if repeats else None
