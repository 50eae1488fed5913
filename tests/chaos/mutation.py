"""A safeguard, how it is removed, and the tests that must then fail."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Edit:
    file: str
    old: str
    new: str


@dataclass(frozen=True)
class Mutation:
    safeguard: str
    edits: tuple[Edit, ...]
    scenarios: tuple[str, ...]
    chaos_notices: bool = False


def one(
    safeguard: str, file: str, old: str, new: str, *scenarios: str, chaos_notices: bool = False
) -> Mutation:
    return Mutation(safeguard, (Edit(file, old, new),), scenarios, chaos_notices)
