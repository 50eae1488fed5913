"""TCP ports of this machine: which are free, and at which address they are reached."""

import http.client
import socket

BACKLOG = 512


class PortNotFree(Exception):
    """The port is in use, or the address does not belong to this machine."""


def check_port(*, host: str, port: int) -> None:
    """Raise PortNotFree, with a one-line reason, unless a server could listen there."""
    try:
        family, kind, protocol, _, address = _resolve(host, port)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except (OSError, UnicodeError) as error:  # the latter: a name that DNS cannot have
        reason = getattr(error, "strerror", None) or str(error)
        raise PortNotFree(f"Cannot listen on {in_url(host)}:{port}: {reason}") from error


def listen(*, host: str, preferred: int) -> socket.socket:
    """Listen on this port, or on another one if that is taken."""
    try:
        return socket.create_server((host, preferred), backlog=BACKLOG)
    except OSError:
        return socket.create_server((host, 0), backlog=BACKLOG)


def serves_http(*, host: str, port: int) -> bool:
    """Whether a web server answers there; an open port is not enough."""
    client = http.client.HTTPConnection(reachable(host), port, timeout=0.2)
    try:
        client.request("GET", "/healthz")
        return client.getresponse().status < 500
    except (OSError, http.client.HTTPException):
        return False
    finally:
        client.close()


def reachable(host: str) -> str:
    """The address at which this machine reaches a server that listens on `host`."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(host, host)  # noqa: S104


def is_loopback(host: str) -> bool:
    return host in ("localhost", "::1") or host.startswith("127.")


def in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _resolve(host: str, port: int) -> list[tuple]:
    passive = socket.AI_PASSIVE
    return socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=passive)
