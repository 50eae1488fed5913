"""The record types that the activity page lists and exports, with their columns."""

from dataclasses import dataclass
from typing import Any

from django.db.models import Model, Q, QuerySet
from django.http import QueryDict

from bots.models import BotEvent
from bots.status import BotStatus
from dashboard.models import OperatorAction
from slots.models import Finding, SlotTransition
from slots.status import SlotStatus


@dataclass(frozen=True, kw_only=True)
class Records:
    name: str
    title: str
    model: type[Model]
    columns: tuple[str, ...]
    words_in: tuple[str, ...]
    equal_to: tuple[str, ...] = ()
    statuses: tuple[str, ...] = ()
    status_field: str = "to_status"
    related: str | None = None

    def matching(self, given: QueryDict) -> QuerySet[Any]:
        rows = self.model._default_manager.select_related(self.related)
        if self.statuses and given.get("status"):
            rows = rows.filter(**{self.status_field: given["status"]})
        if self.has_field("actor") and given.get("actor"):
            rows = rows.filter(actor=given["actor"])
        if self.has_field("slot") and given.get("slot"):
            rows = rows.filter(slot__name=given["slot"])  # by the index of the slot's id
        words = given.get("q", "").strip()
        return rows.filter(self._search(words)) if words else rows

    def _search(self, words: str) -> Q:
        found = Q()
        for column in self.words_in:
            found |= Q(**{f"{column}__icontains": words})
        for column in self.equal_to:
            found |= Q(**{column: words})
        bot = words.removeprefix("#")
        if bot.isascii() and bot.isdigit() and len(bot) < 18 and self.has_field("bot"):
            found |= Q(bot_id=int(bot))
        return found

    def has_field(self, name: str) -> bool:
        return any(field.name == name for field in self.model._meta.fields)


KINDS = {
    records.name: records
    for records in (
        Records(
            name="slots",
            title="Slots",
            model=SlotTransition,
            columns=(
                "at", "slot_name", "from_status", "to_status", "lasted", "bot_id", "epoch",
                "coolify_uuid", "reason", "actor", "correlation_id",
            ),
            words_in=("reason",),
            equal_to=("slot_name", "correlation_id", "coolify_uuid"),
            statuses=tuple(SlotStatus.values),
        ),
        Records(
            name="bots",
            title="Bots",
            model=BotEvent,
            columns=(
                "at", "bot_id", "from_status", "to_status", "slot_name", "epoch",
                "coolify_uuid", "reason", "actor", "correlation_id",
            ),
            words_in=("reason",),
            equal_to=("slot_name", "correlation_id", "coolify_uuid"),
            statuses=tuple(BotStatus.values),
        ),
        Records(
            name="repairs",
            title="Repairs",
            model=Finding,
            columns=(
                "first_seen_at", "last_seen_at", "sightings", "kind", "name", "bot_id", "epoch",
                "reason", "evidence", "decision", "outcome", "acted_at", "ended_at", "actor",
            ),
            words_in=("reason", "name", "kind"),
            related="slot",
        ),
        Records(
            name="operators",
            title="Operators",
            model=OperatorAction,
            columns=("at", "username", "action", "target", "reason", "done", "outcome"),
            words_in=("reason", "target", "action"),
            equal_to=("username",),
        ),
    )
}  # fmt: skip
