"""Where a webhook may be sent: to the outside only, and to where the name was looked up."""

import ipaddress
import re
import socket
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

from django.conf import settings

LONGEST_ADDRESS = 2000
_PORTS = {"http": 80, "https": 443}
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
# Within somebody's network, though Python does not say so: NAT64 of one's own, addresses of
# version 4 written as of version 6, and the site's own of old.
_INSIDE = [ipaddress.ip_network(name) for name in ("64:ff9b:1::/48", "::/96", "fec0::/10")]

IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address


class WrongWebhookAddress(ValueError):
    """Nothing is sent to this address; says why."""


@dataclass(frozen=True, kw_only=True)
class Target:
    """A webhook's address with the one IP address that was found allowed: it is this one that is
    called, so that a name cannot point elsewhere a moment after it was looked up."""

    secure: bool
    host: str
    port: int
    ip: str
    path: str


def check_webhook_address(url: str) -> str:
    """The address, if something may be sent to it as far as one can tell without asking DNS."""
    parts = _parts(url)
    try:
        ip = ipaddress.ip_address(parts.hostname or "")
    except ValueError:
        return url
    _refuse_private(str(ip))
    return url


def find_target(url: str) -> Target:
    """Look up the host; every one of its addresses has to be allowed."""
    parts = _parts(url)
    host, port = parts.hostname or "", parts.port or _PORTS[parts.scheme]
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise WrongWebhookAddress(f"The host {host} is not known.") from None
    addresses = [str(address[0]) for *_, address in found]
    for address in addresses:
        _refuse_private(address)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Target(secure=parts.scheme == "https", host=host, port=port, ip=addresses[0], path=path)


def _parts(url: str) -> SplitResult:
    if len(url) > LONGEST_ADDRESS or not re.fullmatch(r"[\x21-\x7e]+", url):
        raise WrongWebhookAddress(
            f"It has to be at most {LONGEST_ADDRESS} ASCII characters without spaces."
        )
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise WrongWebhookAddress("This is not an address.") from None
    if parts.scheme not in _PORTS or not parts.hostname or port == 0:
        raise WrongWebhookAddress("It has to begin with https:// or http:// and name a host.")
    if "@" in parts.netloc:
        raise WrongWebhookAddress("It must not hold a user name or password.")
    return parts


def _refuse_private(address: str) -> None:
    ip = _meant(ipaddress.ip_address(address.split("%")[0]))
    inside = any(ip in network for network in _INSIDE)
    outside = ip.is_global and not ip.is_multicast and not inside
    if not outside and not settings.WEBHOOK_ALLOW_PRIVATE:
        raise WrongWebhookAddress("It is an address within a private network.")


def _meant(ip: IPAddress) -> IPAddress:
    """The address of version 4 that one of version 6 leads to: mapped, by 6to4 or by NAT64."""
    if isinstance(ip, ipaddress.IPv4Address):
        return ip
    if ip in _NAT64:
        return ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
    return ip.ipv4_mapped or ip.sixtofour or ip
