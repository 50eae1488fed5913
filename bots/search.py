"""Searching bots by words: of the meeting address as pages show it, the display name and the slot.

An index of PostgreSQL's own full-text search answers it on any installation; an index of trigrams
would need an extension that may be missing. A word is found by its beginning: `abc-defg` finds
https://meet.google.com/abc-defg-hij, `defg` does too, `efg` does not.
"""

import re
from typing import Any

from django.contrib.postgres.search import SearchQuery, SearchVectorField
from django.db.models import CharField, F, Func, Model, TextField, Value

from bots.meetings import masked_address, searched_words

SEPARATORS = "[^[:alnum:]]+"


class ShownAddress(TextField):
    """What pages show of `meeting_url`, written with each bot: a search must find no more."""

    def pre_save(self, model_instance: Model, add: bool) -> Any:
        shown = masked_address(model_instance.meeting_url)  # type: ignore[attr-defined]
        setattr(model_instance, self.attname, shown)
        return shown


def document() -> Func:
    """The words of a bot, as the index `bot_by_shown_words` holds them."""
    return _words(F("shown_address"))


def same_document() -> Func:
    """The same words without the index and its statistics. PostgreSQL expects every word in one of
    200 bots, and would walk through the whole list for a rare one. A second condition corrects
    that: it expects few bots, and uses the index."""
    return _words(Joined(F("shown_address"), Value("")))


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
    found = re.findall(r"[^\W_]+", searched_words(words).lower())
    if not found:
        return None
    return SearchQuery(
        " & ".join(f"'{word}':*" for word in found), config="simple", search_type="raw"
    )
