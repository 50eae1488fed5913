"""Addresses of channels at rest: encrypted and authenticated (Fernet) with a key derived from
SECRET_KEY. A copy of the database without SECRET_KEY reveals no address."""

import base64
import hmac

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.conf import settings

PURPOSE = b"botpool notification channel"


class CannotUnseal(ValueError):
    """The address was sealed with a different SECRET_KEY. Enter it again."""

    def __init__(self) -> None:
        super().__init__(str(self.__doc__))


def seal(text: str) -> str:
    return _cipher().encrypt(text.encode()).decode()


def unseal(sealed: str) -> str:
    """Also what a former SECRET_KEY sealed, while it is in SECRET_KEY_FALLBACKS."""
    try:
        return _cipher().decrypt(sealed).decode()
    except InvalidToken:
        raise CannotUnseal from None


def _cipher() -> MultiFernet:
    """The first key encrypts, each may decrypt."""
    keys = (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)
    return MultiFernet([Fernet(_derived(key)) for key in keys])


def _derived(key: str) -> bytes:
    return base64.urlsafe_b64encode(hmac.digest(key.encode(), PURPOSE, "sha256"))
