import base64

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coolify.bot_data import decode_bot_data, encode_bot_data

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@settings(deadline=None)
@given(data=st.dictionaries(st.text(), JSON))
def test_decoding_returns_what_was_encoded(data):
    assert decode_bot_data(encode_bot_data(data)) == data


def test_the_value_has_nothing_that_a_shell_or_coolify_would_change():
    value = encode_bot_data({"name": "Ada #1 $HOME {x} 'q' \"p\" \n ü"})
    assert value.isascii()
    assert not set(value) & set(" #$'\"{}[]\n")


def test_letters_are_not_escaped():
    assert base64.b64decode(encode_bot_data({"name": "Ада"})) == '{"name":"Ада"}'.encode()


def test_a_value_that_json_does_not_allow_is_refused():
    with pytest.raises(ValueError, match="float"):
        encode_bot_data({"delay": float("nan")})


@pytest.mark.parametrize(
    "value",
    ["not base64!", base64.b64encode(b"no json").decode(), base64.b64encode(b"[]").decode()],
)
def test_a_value_that_is_not_an_object_is_refused(value):
    with pytest.raises(ValueError, match="BOT_DATA"):
        decode_bot_data(value)
