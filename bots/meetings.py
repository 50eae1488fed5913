"""Which platform a meeting is on, read off its address."""

import re
from urllib.parse import SplitResult, urlsplit

from bots.status import Platform

LONGEST_ADDRESS = 2000

# By platform: the host, and what the rest of the address looks like. Ids are not looked at any
# closer: their forms change, and the bot finds out soon enough.
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
    """The meeting's address cannot be used; says why."""


def platform_of(address: str, *, given: Platform | None = None) -> Platform:
    """The platform of this address, or the one given if the address is of no known form.

    A company may have meetings under its own name; but an address known to be of one platform is
    refused for another, because the container of the other could not join it.
    """
    parts = _parts(address)
    found = next((platform for platform in Platform if _is_on(platform, parts)), None)
    if found and given and found != given:
        raise WrongAddress(f"This is an address of {found.value}, not of {given.value}.")
    platform = found or given
    if platform is None:
        known = "; ".join(f"{platform.value}: {form}" for platform, form in EXAMPLES.items())
        raise WrongAddress(f"No platform is known for this address. Known forms: {known}.")
    return platform


def _parts(address: str) -> SplitResult:
    if len(address.encode()) > LONGEST_ADDRESS:
        raise WrongAddress(f"The address is longer than {LONGEST_ADDRESS} bytes.")
    if re.search(r"[\x00-\x20\x7f\\]", address):
        raise WrongAddress("The address holds a space, a backslash or a control character.")
    try:
        parts = urlsplit(address)
        has_host = bool(parts.hostname) and parts.port != 0
    except ValueError:
        raise WrongAddress("This is not an address.") from None
    if parts.scheme not in ("http", "https") or not has_host:
        raise WrongAddress("The address has to begin with https:// or http:// and name a host.")
    if "@" in parts.netloc:
        raise WrongAddress("The address must not hold a user name or password.")
    return parts


def _is_on(platform: Platform, parts: SplitResult) -> bool:
    host, rest = _FORMS[platform]
    path = parts.path + (f"#{parts.fragment}" if parts.path == "/_" else "")
    return bool(
        re.fullmatch(host, parts.hostname or "", re.ASCII) and re.fullmatch(rest, path, re.ASCII)
    )
