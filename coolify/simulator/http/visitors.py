"""Who may use the page and the control path, which ask for no token: no foreign web page."""

from collections.abc import Iterable
from ipaddress import ip_address

from coolify.simulator.messages import Request, refusal


def check_visitor(request: Request, *, hosts: Iterable[str]) -> None:
    """Refuse names that anybody can point at this machine, and forms of other sites.

    `hosts` are accepted besides addresses and names without a dot, such as those of containers.
    """
    host = request.headers.get("host", "").lower()
    name = name_in(host)
    if not is_own(name) and name not in {each.lower() for each in hosts}:
        raise refusal(
            421,
            f"The page and the control path are not open under {name}: start the simulator with "
            f"--allowed-host {name}, or use its address.",
        )
    origin = request.headers.get("origin")
    if origin is not None and origin.lower().partition("://")[2] != host:
        raise refusal(403, "The request comes from the page of another site.")


def name_in(host: str) -> str:
    """Without the port."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0].rstrip(".")


def is_own(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return "." not in name
    return True
