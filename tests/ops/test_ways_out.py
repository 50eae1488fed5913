"""The table of states in docs/operating.md: no state without a row, no row without a way out."""

import re
from dataclasses import dataclass
from pathlib import Path

import pytest
from django.conf import settings

from botpool import settings as settings_module
from bots.status import MOVES as BOT_MOVES
from bots.status import TERMINAL, BotStatus
from coolify.budget.report import GRANTED, REFUSALS
from dashboard.actions.registry import ACTIONS
from dashboard.notifications.records import Message
from pool.images.overview import ImageState
from servers.health import ServerState
from slots.deployment import ACTIVE, DeploymentStatus
from slots.images import OPEN, PrepullStatus
from slots.logs import LogStatus
from slots.status import MOVES as SLOT_MOVES
from slots.status import SlotStatus

OPERATING = Path(__file__).parents[2] / "docs" / "operating.md"
FINAL = "final"
NONE = "–"

# The states that an enum or a list of the code names.
NAMED = {
    "slot": set(SlotStatus.values),
    "bot": set(BotStatus.values),
    "deployment": set(DeploymentStatus.values),
    "calls": {GRANTED, *REFUSALS},
    "server": set(ServerState.values),
    "image of a platform": set(ImageState.values),
    "pre-pull": set(PrepullStatus.values),
    "notification": set(Message.Status.values),
    "log of a failure": set(LogStatus.values),
}
# States that are a matter of several fields.
OTHERS = {
    "slot": {"cordoned", "quarantined", "beyond the size"},
    "lease": {"free", "held", "waited for in vain"},
    "platform": {"paused"},
    "image": {"cold", "doubted", "pulling", "warm"},
    "calls": {"refused access"},
    "webhook endpoint": {"enabled", "failing", "disabled"},
    "notification channel": {"working", "failing", "disabled"},
    "repair": {"held back"},
}
# States in which all is well: they need no way out.
WELL = {
    ("calls", GRANTED),
    ("webhook endpoint", "enabled"),
    ("notification channel", "working"),
    ("server", ServerState.HEALTHY.value),
    ("image of a platform", ImageState.SETTLED.value),
}


@dataclass(frozen=True)
class Row:
    thing: str
    state: str
    entry: str
    by_itself: str
    operator: str

    @property
    def is_named(self) -> bool:
        return self.state.startswith("`")

    @property
    def key(self) -> tuple[str, str]:
        return self.thing, self.state.strip("`")


def rows() -> list[Row]:
    text = OPERATING.read_text()
    section = text.partition("## Every state and its way out")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")][2:]
    return [Row(*(cell.strip() for cell in line.strip("|").split("|"))) for line in lines]


@pytest.mark.parametrize("thing", sorted(NAMED))
def test_each_status_in_the_code_has_one_row(thing):
    told = [row.key[1] for row in rows() if row.thing == thing and row.is_named]
    assert sorted(told) == sorted(NAMED[thing])


def test_the_other_states_have_one_row_each():
    told = [row.key for row in rows() if not row.is_named]
    assert sorted(told) == sorted((thing, state) for thing in OTHERS for state in OTHERS[thing])


def test_no_state_is_without_a_way_out():
    stuck = [
        row.key
        for row in rows()
        if row.by_itself == NONE and not _actions(row) and row.key not in WELL
    ]
    assert stuck == []


def test_exactly_the_ended_ones_are_final():
    over = {("bot", status.value) for status in TERMINAL}
    over |= {("deployment", each.value) for each in DeploymentStatus if each not in ACTIVE}
    over |= {("pre-pull", each.value) for each in PrepullStatus if each not in OPEN}
    over |= {("notification", each) for each in (Message.Status.SENT, Message.Status.FAILED)}
    over |= {("log of a failure", each.value) for each in (LogStatus.KEPT, LogStatus.NOT_KEPT)}
    assert {row.key for row in rows() if row.by_itself == FINAL} == over


def test_each_row_says_how_the_state_is_entered():
    assert [row.key for row in rows() if len(row.entry) < 5] == []


def test_the_actions_exist():
    titles = {action.title for action in ACTIONS.values()}
    assert {name for row in rows() for name in _actions(row)} <= titles


def test_the_settings_exist():
    named = {name for row in rows() for name in re.findall(r"`([A-Z][A-Z_]+)`", row.by_itself)}
    assert len(named) > 10
    source = Path(settings_module.__file__).read_text()
    assert [n for n in named if not hasattr(settings, n) and f'"{n}"' not in source] == []


def test_a_status_that_lasts_has_a_move_in_the_code():
    assert [status for status in SlotStatus if not SLOT_MOVES[status]] == []
    ends = {status for status in BotStatus if not BOT_MOVES.get(status)}
    assert ends == set(TERMINAL)


def _actions(row: Row) -> list[str]:
    return re.findall(r"\*([^*]+)\*", row.operator)
