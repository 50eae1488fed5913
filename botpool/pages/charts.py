"""Small charts as SVG: the geometry is worked out here, the template only writes it down."""

from collections.abc import Sequence
from dataclasses import dataclass

WIDTH, HEIGHT = 240.0, 56.0

Values = Sequence[float | None]


@dataclass(frozen=True, kw_only=True)
class Line:
    name: str
    tone: str
    paths: list[str]
    now: str


@dataclass(frozen=True, kw_only=True)
class Chart:
    title: str
    lines: list[Line]
    filled: bool
    top: str
    is_empty: bool

    @property
    def words(self) -> str:
        """For those who do not see it."""
        now = ", ".join(f"{line.name} {line.now}" for line in self.lines)
        return f"{self.title}, last hour. Now: {now}. Highest: {self.top}."


Series = Sequence[tuple[str, str, Values]]  # name, tone, values from the oldest to the newest


def line_chart(title: str, series: Series, *, unit: str = "") -> Chart:
    top = _top([value for _, _, values in series for value in values])
    lines = [
        Line(name=name, tone=tone, paths=_polylines(values, top=top), now=_now(values, unit))
        for name, tone, values in series
    ]
    return Chart(
        title=title,
        lines=lines,
        filled=False,
        top=_words(top, unit),
        is_empty=not any(line.paths for line in lines),
    )


def stacked_chart(title: str, series: Series) -> Chart:
    """Each on top of those before it."""
    length = max((len(values) for _, _, values in series), default=0)
    floor = [0.0] * length
    stacks = []
    for name, tone, values in series:
        ceiling = [low + (value or 0) for low, value in zip(floor, values, strict=True)]
        stacks.append((name, tone, values, floor, ceiling))
        floor = ceiling
    top = _top(list(floor))
    lines = [
        Line(name=name, tone=tone, paths=_band(low, high, top=top), now=_now(values, ""))
        for name, tone, values, low, high in stacks
    ]
    return Chart(title=title, lines=lines, filled=True, top=_words(top, ""), is_empty=length < 2)


def _top(values: Values) -> float:
    return max([value for value in values if value is not None] or [0.0]) or 1.0


def _polylines(values: Values, *, top: float) -> list[str]:
    """One for each stretch without a gap."""
    paths, run = [], []
    for index, value in enumerate([*values, None]):
        if value is not None:
            run.append(_point(index, value, count=len(values), top=top))
        elif run:
            # A single reading is still worth a dash.
            paths.append(" ".join(run if len(run) > 1 else [run[0], f"{run[0]} "]))
            run = []
    return paths


def _band(low: Values, high: Values, *, top: float) -> list[str]:
    if len(low) < 2:
        return []
    above = [_point(i, v or 0, count=len(high), top=top) for i, v in enumerate(high)]
    below = [_point(i, v or 0, count=len(low), top=top) for i, v in enumerate(low)]
    return [" ".join([*above, *reversed(below)])]


def _point(index: int, value: float, *, count: int, top: float) -> str:
    x = WIDTH * index / max(count - 1, 1)
    return f"{x:.1f},{2 + (HEIGHT - 4) * (1 - value / top):.1f}"


def _now(values: Values, unit: str) -> str:
    known = [value for value in values if value is not None]
    return _words(known[-1], unit) if known else "–"


def _words(value: float, unit: str) -> str:
    number = f"{value:.0f}" if value >= 10 or value == int(value) else f"{value:.1f}"
    return f"{number} {unit}".strip()
