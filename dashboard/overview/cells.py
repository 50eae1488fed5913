"""The grid of slots on a card: one cell each, written without a template.

A pool has hundreds of cells, and a template would take longer for them than for all the rest.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe

from slots.models import Slot
from slots.status import SlotStatus

# A letter in addition to the colour, for readers who cannot tell the colours apart.
LETTERS = {
    "idle": "I",
    "deploying": "D",
    "busy": "B",
    "stopping": "S",
    "error": "E",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Cell:
    """A slot, and how long its current start usually takes."""

    slot_id: int
    platform: str
    name: str
    status: str
    cordoned: bool
    beyond_size: bool
    since: datetime
    bot_id: int | None
    bot_name: str
    expected: timedelta | None

    @property
    def words(self) -> str:
        status = "starting" if self.status == SlotStatus.DEPLOYING else self.status
        cordoned = ", cordoned" if self.cordoned else ""
        holder = f", bot #{self.bot_id} {self.bot_name[:40]}" if self.bot_id else ""
        return f"{self.name}: {status}{cordoned}{holder}"


_COLUMNS = {
    "slot_id": "id",
    "platform": "platform",
    "name": "name",
    "status": "status",
    "cordoned": "cordoned",
    "beyond_size": "beyond_size",
    "since": "status_since",
    "bot_id": "assigned_bot_id",
    "bot_name": "assigned_bot__display_name",
}


def cells_by_platform(expected: Mapping[int, timedelta]) -> dict[str, list[Cell]]:
    """All slots by number. Reads the columns that are shown: a slot has many more."""
    rows = Slot.objects.order_by("platform", "number").values_list(*_COLUMNS.values())
    found: defaultdict[str, list[Cell]] = defaultdict(list)
    for row in rows:
        values = dict(zip(_COLUMNS, row, strict=True))
        cell = Cell(**values, expected=expected.get(values["slot_id"]))
        found[cell.platform].append(cell)
    return found


def grid(cells: Iterable[Cell]) -> SafeString:
    return mark_safe("".join(map(_shown, cells)))  # noqa: S308 (each part is escaped)


def _shown(cell: Cell) -> str:
    name, words = escape(cell.name), escape(cell.words)
    cordoned = " cordoned" if cell.cordoned else ""
    usual = f' data-expected="{cell.expected.total_seconds():.0f}"' if cell.expected else ""
    return (
        f'<li><a id="cell-{name}" class="cell {cell.status}{cordoned}" href="/slots/{name}/" '
        f'aria-label="{words}" data-since="{cell.since.timestamp():.0f}"{usual}>'
        f"{LETTERS.get(cell.status, '?')}</a></li>\n"
    )
