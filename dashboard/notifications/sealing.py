"""Addresses of channels at rest: encrypted and authenticated with keys derived from SECRET_KEY.

A copy of the database without SECRET_KEY reveals no address. The cipher is HMAC-SHA256 in counter
mode, the tag a second HMAC over nonce and ciphertext (encrypt, then authenticate): both are in the
standard library, so no further dependency holds our secrets.
"""

import base64
import hmac
import secrets
from binascii import Error as NotBase64
from collections.abc import Iterator
from itertools import count

from django.conf import settings

_VERSION = "v1:"
_NONCE, _TAG = 16, 32


class CannotUnseal(ValueError):
    """The address was sealed with a different SECRET_KEY. Enter it again."""

    def __init__(self) -> None:
        super().__init__(str(self.__doc__))


def seal(text: str) -> str:
    nonce = secrets.token_bytes(_NONCE)
    hidden = _mix(settings.SECRET_KEY, nonce, text.encode())
    tag = _tag(settings.SECRET_KEY, nonce + hidden)
    return _VERSION + base64.b64encode(nonce + hidden + tag).decode()


def unseal(sealed: str) -> str:
    """Also what a former SECRET_KEY sealed, while it is in SECRET_KEY_FALLBACKS."""
    try:
        content = base64.b64decode(sealed.removeprefix(_VERSION), validate=True)
    except NotBase64:
        raise CannotUnseal from None
    body, tag = content[:-_TAG], content[-_TAG:]
    for key in (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS):
        if hmac.compare_digest(_tag(key, body), tag):
            return _mix(key, body[:_NONCE], body[_NONCE:]).decode()
    raise CannotUnseal


def _mix(key: str, nonce: bytes, text: bytes) -> bytes:
    """Encrypt, or decrypt: the same stream is mixed in both times."""
    return bytes(a ^ b for a, b in zip(text, _stream(key, nonce), strict=False))


def _stream(key: str, nonce: bytes) -> Iterator[int]:
    own = _derived(key, "encrypt")
    for number in count():
        yield from hmac.digest(own, nonce + number.to_bytes(8, "big"), "sha256")


def _tag(key: str, body: bytes) -> bytes:
    return hmac.digest(_derived(key, "authenticate"), body, "sha256")


def _derived(key: str, purpose: str) -> bytes:
    return hmac.digest(key.encode(), f"botpool notification channel: {purpose}".encode(), "sha256")
