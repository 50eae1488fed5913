"""Where a webhook may be sent: public addresses only, and the very IP that was checked."""

import ipaddress
import re
import socket
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

from django.conf import settings

LONGEST_ADDRESS = 2000
_PORTS = {"http": 80, "https": 443}
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
# The only IPv6 addresses in public use. Others, such as IPv4-translated ones, may lead inwards.
_PUBLIC_IPV6 = ipaddress.ip_network("2000::/3")
# Of the special ranges that IANA lists, those that `is_global` misses in some versions of Python,
# and the address at which Azure serves its virtual machines.
_PRIVATE = [
    ipaddress.ip_network(name)
    for name in (
        "192.0.0.0/24", "192.88.99.0/24", "2001::/23", "2001:db8::/32", "3fff::/20",
        "168.63.129.16/32",
    )
]  # fmt: skip

PRIVATE_ADDRESS = (
    "The address is in a private network. An operator can allow this (WEBHOOK_ALLOW_PRIVATE=true)."
)
IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address


class WrongWebhookAddress(ValueError):
    """Webhooks cannot be sent to this address; the message says why."""


@dataclass(frozen=True, kw_only=True)
class Target:
    """A webhook's address and the IP that was checked. Connect to this IP: the host name may
    resolve to a different one a moment later."""

    secure: bool
    host: str
    port: int
    ip: str
    path: str


def check_webhook_address(url: str) -> str:
    """Return the address if it is allowed, as far as can be told without DNS."""
    refuse_private_host(_parts(url).hostname or "")
    return url


def receiver_of(url: str) -> str:
    """Scheme, host and port, spelled in one way: all addresses with these reach one server."""
    parts = urlsplit(url)
    host, port = (parts.hostname or "").rstrip("."), parts.port or _PORTS[parts.scheme]
    host = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{host}" + ("" if port == _PORTS[parts.scheme] else f":{port}")


def refuse_private_host(host: str) -> None:
    """Refuse what is private whatever DNS says. Other names are checked once they are resolved."""
    if address := _address_without_dns(host):
        _refuse_private(address)


def _address_without_dns(host: str) -> str:
    """The IP address that this host means in any case; empty if DNS decides."""
    host = host.rstrip(".")  # the root of DNS: the same host
    if host == "localhost" or host.endswith(".localhost"):
        return "127.0.0.1"
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        pass
    try:
        return socket.inet_ntoa(socket.inet_aton(host))  # 127.1, 2130706433, 0x7f.1
    except (OSError, UnicodeError):
        return ""


def find_target(url: str) -> Target:
    """Resolve the host. Every IP address it resolves to must be allowed."""
    parts = _parts(url)
    host, port = parts.hostname or "", parts.port or _PORTS[parts.scheme]
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise WrongWebhookAddress(f"The host {host} cannot be resolved.") from None
    addresses = [str(address[0]) for *_, address in found]
    for address in addresses:
        _refuse_private(address)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Target(secure=parts.scheme == "https", host=host, port=port, ip=addresses[0], path=path)


def _parts(url: str) -> SplitResult:
    if len(url) > LONGEST_ADDRESS or not re.fullmatch(r"[\x21-\x7e]+", url):
        raise WrongWebhookAddress(
            f"The address must have at most {LONGEST_ADDRESS} ASCII characters and no spaces."
        )
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise WrongWebhookAddress("This is not a valid address.") from None
    if parts.scheme not in _PORTS or not parts.hostname or port == 0:
        raise WrongWebhookAddress(
            "The address must begin with https:// or http:// and name a host."
        )
    if "@" in parts.netloc:
        raise WrongWebhookAddress("The address must not contain a user name or password.")
    return parts


def _refuse_private(address: str) -> None:
    if not is_public(address) and not settings.WEBHOOK_ALLOW_PRIVATE:
        raise WrongWebhookAddress(PRIVATE_ADDRESS)


def is_public(address: str) -> bool:
    """Whether this IP address is one of the public internet."""
    ip = _effective(ipaddress.ip_address(address.split("%")[0]))
    is_private = any(ip in network for network in _PRIVATE) or (
        ip.version == 6 and ip not in _PUBLIC_IPV6
    )
    return ip.is_global and not ip.is_multicast and not is_private


def _effective(ip: IPAddress) -> IPAddress:
    """The IPv4 address behind a mapped, 6to4 or NAT64 address; any other address itself."""
    if isinstance(ip, ipaddress.IPv4Address):
        return ip
    if ip in _NAT64:
        return ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
    return ip.ipv4_mapped or ip.sixtofour or ip
