"""Searching bots by words: of the meeting address, the display name and the slot.

An index of PostgreSQL's own full-text search answers it on any installation; an index of trigrams
would need an extension that may be missing. A word is found by its beginning: `abc-defg` finds
https://meet.google.com/abc-defg-hij, `defg` does too, `efg` does not.
"""

import re

from django.contrib.postgres.search import SearchQuery, SearchVectorField
from django.db.models import CharField, F, Func, Value

from bots.meetings import HIDDEN_END, without_hidden_end

SEPARATORS = "[^[:alnum:]]+"


def document() -> Func:
    """The words of a bot, as the index `bot_by_words` holds them."""
    return _words(F("meeting_url"))


def readable_document() -> Func:
    """The same without what pages hide of the address. A search must not help to guess it."""
    return _words(readable_address())


def readable_address() -> Func:
    return Func(
        F("meeting_url"), Value(HIDDEN_END), Value(""), function="regexp_replace",
        output_field=CharField(),
    )  # fmt: skip


def _words(text: F | Func) -> Func:
    for name in ("display_name", "slot_name"):
        text = Joined(Joined(text, Value(" ")), F(name))
    words = Func(
        text, Value(SEPARATORS), Value(" "), Value("g"), function="regexp_replace",
        output_field=CharField(),
    )  # fmt: skip
    return Func(
        words,
        template="to_tsvector('simple', %(expressions)s)",
        output_field=SearchVectorField(),
    )


class Joined(Func):
    """`||`, which an index may use; concat() is not immutable."""

    template = "(%(expressions)s)"
    arg_joiner = " || "
    output_field = CharField()


def query(words: str) -> SearchQuery | None:
    """All words, each as a beginning; None if there is none."""
    found = re.findall(r"[^\W_]+", without_hidden_end(words).lower())
    if not found:
        return None
    return SearchQuery(
        " & ".join(f"'{word}':*" for word in found), config="simple", search_type="raw"
    )
