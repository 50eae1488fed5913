"""Small SVG charts. The geometry is computed here; the template only prints it."""

from collections.abc import Sequence
from dataclasses import dataclass

WIDTH, HEIGHT = 240.0, 56.0
LOWEST_TOP = 1.0  # the smallest scale: values below one bot or one second stay small

Values = Sequence[float | None]


@dataclass(frozen=True, kw_only=True)
class Line:
    name: str
    tone: str
    paths: list[str]
    last: str


@dataclass(frozen=True, kw_only=True)
class Chart:
    title: str
    lines: list[Line]
    filled: bool
    top: str
    is_empty: bool

    @property
    def words(self) -> str:
        """A text alternative for screen readers."""
        last = ", ".join(f"{line.name} {line.last}" for line in self.lines)
        return f"{self.title}, last hour. Latest: {last}. Highest: {self.top}."

    @property
    def has_key(self) -> bool:
        """Charts of counts have no key: the last sample may differ from the live count."""
        return not self.filled and len(self.lines) > 1


# Name, tone, and one value per minute, oldest first. None means no sample.
Series = Sequence[tuple[str, str, Values]]


def line_chart(title: str, series: Series, *, unit: str = "") -> Chart:
    top = _top([value for _, _, values in series for value in values])
    lines = [
        Line(name=name, tone=tone, paths=_polylines(values, top=top), last=_last(values, unit))
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
    floor: Values = [0.0] * len(series[0][2])
    stacks = []
    for name, tone, values in series:
        ceiling = [_sum(low, value) for low, value in zip(floor, values, strict=True)]
        stacks.append((name, tone, values, floor, ceiling))
        floor = ceiling
    top = _top(floor)
    lines = [
        Line(name=name, tone=tone, paths=_bands(low, high, top=top), last=_last(values, ""))
        for name, tone, values, low, high in stacks
    ]
    return Chart(
        title=title,
        lines=lines,
        filled=True,
        top=_words(top, ""),
        is_empty=not any(line.paths for line in lines),
    )


def _sum(low: float | None, value: float | None) -> float | None:
    return None if low is None or value is None else low + value


def _top(values: Values) -> float:
    return max([value for value in values if value is not None] or [0.0])


def _polylines(values: Values, *, top: float) -> list[str]:
    return [" ".join(points) for points in _stretches(values, top=top)]


def _bands(low: Values, high: Values, *, top: float) -> list[str]:
    pairs = zip(low, high, strict=True)
    floor = [None if above is None else below for below, above in pairs]
    stretches = zip(_stretches(high, top=top), _stretches(floor, top=top), strict=True)
    return [" ".join([*above, *reversed(below)]) for above, below in stretches]


def _stretches(values: Values, *, top: float) -> list[list[str]]:
    """The points of each stretch without a gap.

    A sample is drawn as wide as its minute, so a single one is visible.
    """
    stretches: list[list[str]] = []
    minute = WIDTH / len(values)
    before: float | None = None
    scale = max(top, LOWEST_TOP)
    for index, value in enumerate(values):
        if value is not None:
            y = 2 + (HEIGHT - 4) * (1 - value / scale)
            if before is None:
                stretches.append([f"{minute * index:.1f},{y:.1f}"])
            stretches[-1].append(f"{minute * (index + 1):.1f},{y:.1f}")
        before = value
    return stretches


def _last(values: Values, unit: str) -> str:
    known = [value for value in values if value is not None]
    return _words(known[-1], unit) if known else "–"


def _words(value: float, unit: str) -> str:
    number = f"{value:.0f}" if value >= 10 or value == int(value) else f"{value:.1f}"
    return f"{number} {unit}".strip()
