import unicodedata
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coolify.description_text import (
    DescriptionStyle,
    describe_busy,
    describe_deploying,
    describe_error,
    describe_idle,
    describe_stopping,
)

PLAIN = DescriptionStyle.PLAIN
MOMENT = datetime(2025, 12, 16, 21, 30, tzinfo=UTC)


def test_a_busy_slot_names_its_bot_and_the_time():
    assert describe_busy(bot=123, since=MOMENT) == "[BUSY] Bot #123 - 2025-12-16T21:30:00Z"


def test_a_deploying_slot_names_its_bot():
    assert (
        describe_deploying(bot=123, since=MOMENT) == "[DEPLOYING] Bot #123 - 2025-12-16T21:30:00Z"
    )


def test_an_idle_slot_says_when_it_was_last_used():
    text = describe_idle(last_used=MOMENT)
    assert text == "[IDLE] Available - Last used: 2025-12-16T21:30:00Z"


def test_a_slot_that_was_never_used_is_just_available():
    assert describe_idle(last_used=None) == "[IDLE] Available"


def test_a_stopping_slot_names_no_bot():
    text = describe_stopping(since=MOMENT)
    assert text == "[STOPPING] Container stopping - 2025-12-16T21:30:00Z"


def test_an_error_gives_its_cause():
    text = describe_error(cause="Container crashed", at=MOMENT)
    assert text == "[ERROR] Container crashed - 2025-12-16T21:30:00Z"


def test_times_are_shown_in_utc_to_the_second():
    in_berlin = datetime(2025, 12, 16, 22, 30, 0, 999_999, tzinfo=timezone(timedelta(hours=1)))
    assert describe_busy(bot=1, since=in_berlin).endswith(" - 2025-12-16T21:30:00Z")


def test_a_time_without_a_zone_is_refused():
    with pytest.raises(ValueError, match="zone"):
        describe_busy(bot=1, since=datetime(2025, 12, 16, 21, 30))


def test_a_long_cause_is_cut_and_the_time_is_not():
    text = describe_error(cause="x" * 1000, at=MOMENT)
    assert len(text) == 255
    assert text.endswith("x... - 2025-12-16T21:30:00Z")


def test_a_cause_that_just_fits_is_not_cut():
    room = 255 - len("[ERROR]  - 2025-12-16T21:30:00Z")
    assert "x" * room in describe_error(cause="x" * room, at=MOMENT)
    assert "..." in describe_error(cause="x" * (room + 1), at=MOMENT)


def test_tags_and_control_characters_are_removed_from_the_cause():
    cause = "<b>pull</b> failed:\n\x1b[31m no < space\u202e"
    assert describe_error(cause=cause, at=MOMENT).startswith(
        "[ERROR] pull failed: [31m no space - "
    )


def test_an_empty_cause_is_shown_as_unknown():
    assert describe_error(cause=" \n", at=MOMENT) == "[ERROR] Unknown - 2025-12-16T21:30:00Z"


# The plain style, for teams that use Coolify's own form


def test_the_plain_style_has_no_brackets_number_sign_or_colon():
    assert describe_busy(bot=123, since=MOMENT, style=PLAIN) == "(BUSY) Bot 123 - 20251216T213000Z"


def test_the_plain_style_of_an_idle_slot():
    text = describe_idle(last_used=MOMENT, style=PLAIN)
    assert text == "(IDLE) Available - Last used 20251216T213000Z"


def test_the_plain_style_of_an_error_leaves_out_what_the_form_refuses():
    text = describe_error(cause="exit code: #137 [oom]", at=MOMENT, style=PLAIN)
    assert text == "(ERROR) exit code 137 oom - 20251216T213000Z"


@settings(deadline=None)
@given(cause=st.text(max_size=600), style=st.sampled_from(DescriptionStyle))
def test_no_cause_breaks_the_shape(cause, style):
    text = describe_error(cause=cause, at=MOMENT, style=style)
    assert len(text) <= 255
    assert text == text.strip()
    assert text.endswith("0Z")
    assert not set(text) & {"<", ">"}
    assert not any(unicodedata.category(character)[0] == "C" for character in text)
    if style == PLAIN:
        assert not set(text) & set("[]#:")
