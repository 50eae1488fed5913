"""A meeting's address: its platform, and what of it may be shown."""

import re
from collections.abc import Iterator
from urllib.parse import SplitResult, parse_qsl, urlsplit

from bots.masking import MASK, masked_line
from bots.secrets.names import is_secret_name
from bots.status import Platform

LONGEST_ADDRESS = 2000

# Each platform's hosts and paths. Meeting ids are not checked: their format changes, and the bot
# finds out soon enough.
_FORMS: dict[Platform, tuple[str, str]] = {
    Platform.GOOGLE_MEET: (r"meet\.google\.com", r"/(lookup/)?[\w-]+/?"),
    Platform.TEAMS: (
        r"teams\.microsoft\.com|teams\.live\.com|teams\.cloud\.microsoft"
        r"|(gov|dod)\.teams\.microsoft\.us",
        r"/(l/meetup-join|meet|v2|_#/l/meetup-join)/.*",
    ),
    Platform.ZOOM: (r"([\w-]+\.)*(zoom\.us|zoom\.com|zoomgov\.com)", r"/(j|w|s|my|wc)/.+"),
}

EXAMPLES: dict[Platform, str] = {
    Platform.GOOGLE_MEET: "https://meet.google.com/abc-defg-hij",
    Platform.TEAMS: "https://teams.microsoft.com/l/meetup-join/…, …/meet/… or https://teams.live.com/meet/…",
    Platform.ZOOM: "https://zoom.us/j/123456789 (or …/my/name, and any subdomain)",
}


class WrongAddress(ValueError):
    """The meeting's address cannot be used; the message says why."""


def platform_of(address: str, *, given: Platform | None = None) -> Platform:
    """Return the platform of this address, or `given` if the address matches no known form.

    A company may host meetings on its own domain. But an address known to belong to one platform
    is refused for another: that platform's container could not join it.
    """
    parts = _parts(address)
    found = next((platform for platform in Platform if _is_on(platform, parts)), None)
    if found and given and found != given:
        raise WrongAddress(f"This is a {found.value} address, not a {given.value} address.")
    platform = found or given
    if platform is None:
        known = "; ".join(f"{platform.value}: {form}" for platform, form in EXAMPLES.items())
        raise WrongAddress(f"No platform is known for this address. Known forms: {known}.")
    return platform


# Passcodes are in the query. In the fragment Teams has its path: /_#/l/meetup-join/….
_SECRET_PART = re.compile(r"(?<=[?&;])([^=&;#]*=)?[^&#]+|(?<=#)([^=&#/]*=)[^&#]+")


# Printable ones of ASCII, also escaped several times.
_ESCAPED = re.compile(r"%(?:25){0,3}(2[1-9A-Fa-f]|[3-6][\dA-Fa-f]|7[\dA-Ea-e])")


def masked_address(address: str) -> str:
    """The address with all values of its query hidden, and what else looks like a secret.

    Searches look in `Bot.shown_address`: when this hides more than before, fill it again.
    """
    shown = _without_values(address)
    plain = _ESCAPED.sub(lambda found: chr(int(found[1], 16)), shown)
    if plain == shown:
        return shown
    hidden = _without_values(plain)
    return shown if hidden == plain else hidden


def _without_values(address: str) -> str:
    return masked_line(_SECRET_PART.sub(lambda found: (found[1] or found[2] or "") + MASK, address))


def secrets_in_address(address: str) -> Iterator[str]:
    """The values of its query and fragment that may be passcodes: all but plain words under names
    of no secret, which sentences use, too."""
    parts = urlsplit(address)
    for part in (parts.query, parts.fragment.rpartition("?")[2]):
        for name, value in parse_qsl(part.replace(";", "&")):
            if is_secret_name(name) or not value.isalpha():
                yield value


def searched_words(words: str) -> str:
    """Words to search for. Of an address only what pages show, as people paste whole ones."""
    return masked_address(re.sub(r"\?\S*", "", words)) if "/" in words else words


# Blank, though Unicode calls them letters or marks. For use in a class of a pattern.
BLANK = (
    r"\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\ufff9-\ufffb"
    # As they are: JavaScript, which reads the schema of the API, has no such escapes.
    "\U00013430-\U0001345f\U00016fe4\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff"
)
_UNSEEN = re.compile(rf"[ \\{BLANK}]")


def _parts(address: str) -> SplitResult:
    if len(address.encode()) > LONGEST_ADDRESS:
        raise WrongAddress(f"The address is longer than {LONGEST_ADDRESS} bytes.")
    if not address.isprintable() or _UNSEEN.search(address):
        raise WrongAddress(
            "The address contains a space, a backslash, a control character or an invisible one."
        )
    try:
        parts = urlsplit(address)
        has_host = bool(parts.hostname) and parts.port != 0
    except ValueError:
        raise WrongAddress("This is not a valid address.") from None
    if parts.scheme not in ("http", "https") or not has_host:
        raise WrongAddress("The address must begin with https:// or http:// and name a host.")
    if "@" in parts.netloc:
        raise WrongAddress("The address must not contain a user name or password.")
    return parts


def _is_on(platform: Platform, parts: SplitResult) -> bool:
    host, rest = _FORMS[platform]
    path = parts.path + (f"#{parts.fragment}" if parts.path == "/_" else "")
    return bool(
        re.fullmatch(host, parts.hostname or "", re.ASCII) and re.fullmatch(rest, path, re.ASCII)
    )
