"""Addresses at rest."""

import pytest

from dashboard.notifications.sealing import CannotUnseal, seal, unseal

URL = "slack://tokenA/tokenB/" + "x" * 100


def test_what_is_sealed_can_be_unsealed():
    assert unseal(seal(URL)) == URL


def test_the_same_text_is_sealed_differently_each_time():
    assert seal(URL) != seal(URL)
    assert "token" not in seal(URL)


def test_a_former_key_unseals_while_it_is_a_fallback(settings):
    sealed, former = seal(URL), settings.SECRET_KEY
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "another", [former]
    assert unseal(sealed) == URL
    settings.SECRET_KEY_FALLBACKS = []
    with pytest.raises(CannotUnseal, match="different SECRET_KEY"):
        unseal(sealed)


@pytest.mark.parametrize("position", [4, 30, -3])
def test_a_changed_text_is_refused(position):
    sealed = list(seal(URL))
    sealed[position] = "A" if sealed[position] != "A" else "B"
    with pytest.raises(CannotUnseal):
        unseal("".join(sealed))


@pytest.mark.parametrize("nonsense", ["", "v1:", "v1:????", "v1:QUJD"])
def test_nonsense_is_refused(nonsense):
    with pytest.raises(CannotUnseal):
        unseal(nonsense)
