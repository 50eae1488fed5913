"""A diagram of the slot's states."""

from dataclasses import dataclass

from slots.status import MOVES, SlotStatus

_PLACES = {
    SlotStatus.IDLE: (60, 34),
    SlotStatus.DEPLOYING: (220, 34),
    SlotStatus.BUSY: (380, 34),
    SlotStatus.STOPPING: (140, 134),
    SlotStatus.ERROR: (300, 134),
}
_HALF_WIDTH, _HALF_HEIGHT = 50, 17


@dataclass(frozen=True, kw_only=True)
class State:
    name: str
    x: int
    y: int
    is_current: bool


@dataclass(frozen=True, kw_only=True)
class Arrow:
    x1: float
    y1: float
    x2: float
    y2: float
    is_next: bool


@dataclass(frozen=True, kw_only=True)
class Picture:
    states: list[State]
    arrows: list[Arrow]
    words: str


def state_machine(current: str) -> Picture:
    """Drawn from the table of allowed moves, so the two always agree."""
    after = ", ".join(state.value for state in MOVES[SlotStatus(current)])
    return Picture(
        states=[
            State(name=state.value, x=x, y=y, is_current=state == current)
            for state, (x, y) in _PLACES.items()
        ],
        arrows=[
            _arrow(before, to, is_next=before == current)
            for before, targets in MOVES.items()
            for to in targets
        ],
        words=f"The slot is {current}. It can become {after}.",
    )


def _arrow(before: SlotStatus, to: SlotStatus, *, is_next: bool) -> Arrow:
    (x1, y1), (x2, y2) = _PLACES[before], _PLACES[to]
    # Moves in both directions get two arrows side by side.
    shift = 9 if before in MOVES[to] else 0
    if y1 == y2:
        side = 1 if x2 > x1 else -1
        x1, x2 = x1 + side * _HALF_WIDTH, x2 - side * (_HALF_WIDTH + 3)
        return Arrow(x1=x1, y1=y1 + side * shift, x2=x2, y2=y2 + side * shift, is_next=is_next)
    side = 1 if y2 > y1 else -1
    slope = (x2 - x1) / (y2 - y1)
    reach = side * _HALF_HEIGHT
    return Arrow(
        x1=round(x1 + slope * reach - side * shift, 1),
        y1=y1 + reach,
        x2=round(x2 - slope * reach - side * shift, 1),
        y2=y2 - reach - side * 3,
        is_next=is_next,
    )
