"""The table of results: each figure with its reference and whether the aim was met."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Row:
    """`ratio` is the figure divided by its reference; `aim` is what it should be, in words."""

    figure: str
    value: str
    reference: str
    ratio: float | None = None
    aim: str = ""
    met: bool | None = None

    def cells(self) -> list[str]:
        ratio = "" if self.ratio is None else f"{self.ratio:.2f}"
        met = {True: "met", False: "NOT MET", None: ""}[self.met]
        return [self.figure, self.value, self.reference, ratio, self.aim, met]


HEADER = ["figure", "value", "reference", "ratio", "aim", "met"]


def as_markdown(rows: Iterable[Row]) -> str:
    lines = [HEADER, ["---"] * len(HEADER), *(row.cells() for row in rows)]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def as_text(rows: Iterable[Row]) -> str:
    table = [HEADER, *(row.cells() for row in rows)]
    widths = [max(len(cells[column]) for cells in table) for column in range(len(HEADER))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()
        for cells in table
    )
