import pytest

from slots.models import Slot
from slots.tokens import Assignment, make_bot_token, read_bot_token

SLOT = Slot(pk=3, epoch=5, assigned_bot_id=12)


def test_it_reads_back_the_assignment_for_which_the_token_was_made():
    token = make_bot_token(SLOT)
    assert token.startswith("b12.s3.e5.")
    assert read_bot_token(token) == Assignment(bot_id=12, slot_id=3, epoch=5)


@pytest.mark.parametrize(
    "change",
    [
        lambda token: token.replace("b12", "b13"),
        lambda token: token.replace("e5", "e6"),
        lambda token: token[:-1] + ("A" if token[-1] != "A" else "E"),
        lambda token: token + "\n",
        lambda token: token.replace("b12", "b١٢"),
        lambda token: "",
        lambda token: "b" + "9" * 5000,
    ],
)
def test_a_changed_token_is_not_ours(change):
    assert read_bot_token(change(make_bot_token(SLOT))) is None


def test_a_token_made_with_the_former_secret_key_still_works(settings):
    token = make_bot_token(SLOT)
    settings.SECRET_KEY_FALLBACKS = [settings.SECRET_KEY]
    settings.SECRET_KEY = "a new one"
    assert read_bot_token(token) == Assignment(bot_id=12, slot_id=3, epoch=5)


def test_a_token_made_with_a_removed_secret_key_does_not_work(settings):
    token = make_bot_token(SLOT)
    settings.SECRET_KEY = "a new one"
    assert read_bot_token(token) is None


def test_a_slot_without_a_bot_has_no_token():
    with pytest.raises(ValueError, match="holds no bot"):
        make_bot_token(Slot(pk=3, epoch=5, name="pool-zoom-001"))
