"""Secrets in a bot's configuration are hidden where people see it."""

import pytest

from bots.masking import MASK, masked, masked_text

SECRETS = [
    "password", "passwd", "pwd", "zoomPwd", "PWD", "passcode", "passphrase", "bearer",
    "jwt", "joinJwt", "access_key", "accessKey", "AWS_ACCESS_KEY_ID", "encryptionKey", "key", "otp",
    "otpCode", "session", "sessionId", "session_cookie", "apiKey", "api-key", "client_secret",
    "authorization", "pin", "hostPin", "credentials", "private_key", "signature", "sig", "psk",
]  # fmt: skip
PLAIN = ["language", "footprint", "keywords", "keyTerms", "spinner", "opinion", "title", "signal"]


@pytest.mark.parametrize("name", SECRETS)
def test_a_secret_is_hidden_by_its_name(name):
    assert masked({"deep": [{name: "hunter2"}]}) == {"deep": [{name: MASK}]}


@pytest.mark.parametrize("name", PLAIN)
def test_what_is_no_secret_is_shown(name):
    assert masked({name: "value"}) == {name: "value"}


@pytest.mark.parametrize(
    "text",
    [
        "https://example.com/in?token=hunter2",
        "https://example.com/in?a=b&access_token=hunter2&c=d",
        "https://zoom.us/j/1?pwd=hunter2#x",
        "https://example.com/#id_token=hunter2",
        "wss://user:hunter2@example.com/",
        "Authorization: Bearer hunter2",
        "bearer hunter2",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJodW50ZXIyIn0.c2lnbmF0dXJl",
    ],
)
def test_a_secret_inside_a_text_is_hidden(text):
    shown = masked_text({"target": text})
    assert "hunter2" not in shown
    assert "c2lnbmF0dXJl" not in shown
    assert MASK in shown


def test_the_rest_of_an_address_is_shown():
    address = "https://example.com/in?a=b&token=x&language=en"
    assert masked(address) == f"https://example.com/in?a=b&token={MASK}&language=en"
