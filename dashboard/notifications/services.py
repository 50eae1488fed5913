"""Which services messages may go to, and what may be shown of their addresses.

Apprise knows about two hundred. Those that run commands, write files, talk to this machine or are
gateways to other addresses of Apprise are not among these.
"""

import re
from dataclasses import dataclass
from urllib.parse import unquote_plus, urlsplit

from api.webhooks.addresses import (
    LONGEST_ADDRESS,
    WrongWebhookAddress,
    check_webhook_address,
    refuse_private_host,
)
from dashboard.notifications.records import NotificationChannel


@dataclass(frozen=True, kw_only=True)
class Service:
    name: str
    schemes: tuple[str, ...]
    example: str
    has_host: bool = False  # else the first part of its address is a secret


SERVICES = (
    Service(name="Slack", schemes=("slack",), example="slack://tokenA/tokenB/tokenC/#channel"),
    Service(
        name="E-mail", schemes=("mailto", "mailtos"), has_host=True,
        example="mailtos://user:password@smtp.example.com?from=botpool@example.com&to=ops@example.com",
    ),
    Service(
        name="Microsoft Teams (Workflows)", schemes=("workflow", "workflows"), has_host=True,
        example="workflows://host.logic.azure.com:443/workflow-id/signature/",
    ),
    Service(name="Telegram", schemes=("tgram",), example="tgram://bot-token/chat-id/"),
    Service(name="Discord", schemes=("discord",), example="discord://webhook-id/webhook-token/"),
    Service(name="Google Chat", schemes=("gchat",), example="gchat://space/key/token"),
    Service(
        name="Mattermost", schemes=("mmost", "mmosts"), has_host=True,
        example="mmosts://chat.example.com/token",
    ),
    Service(
        name="Rocket.Chat", schemes=("rocket", "rockets"), has_host=True,
        example="rockets://user:password@chat.example.com/#channel",
    ),
    Service(
        name="Matrix", schemes=("matrix", "matrixs"), has_host=True,
        example="matrixs://user:password@matrix.example.com/#room",
    ),
    Service(name="Webex", schemes=("wxteams", "webex"), example="wxteams://token"),
    Service(name="Zoom Team Chat", schemes=("zoom",), example="zoom://webhook-id/token"),
    Service(name="PagerDuty", schemes=("pagerduty",), example="pagerduty://integration-key@api-key"),
    Service(name="Opsgenie", schemes=("opsgenie",), example="opsgenie://api-key"),
    Service(name="incident.io", schemes=("incidentio",), example="incidentio://source-id/token"),
    Service(name="Splunk On-Call", schemes=("splunk",), example="splunk://routing-key@api-key"),
    Service(
        name="ntfy", schemes=("ntfy", "ntfys"), has_host=True, example="ntfys://ntfy.example.com/topic"
    ),
    Service(
        name="Gotify", schemes=("gotify", "gotifys"), has_host=True,
        example="gotifys://gotify.example.com/token",
    ),
    Service(name="Pushover", schemes=("pover",), example="pover://user-key@token"),
    Service(name="Twilio (SMS)", schemes=("twilio",), example="twilio://sid:token@from/to"),
)  # fmt: skip
_BY_SCHEME = {scheme: service for service in SERVICES for scheme in service.schemes}
# They make Apprise read files of this machine, or follow where we did not look.
_REFUSED_OPTIONS = {"template", "attach", "pgp", "pgppub", "pgpprv", "pgpkey", "redirect", "store"}


class WrongAddress(ValueError):
    """Messages cannot be sent to this address; the message says why, without the address."""


def kind_of(url: str) -> NotificationChannel.Kind:
    is_webhook = urlsplit(url).scheme.lower() in ("http", "https")
    return NotificationChannel.Kind.WEBHOOK if is_webhook else NotificationChannel.Kind.SERVICE


def check_address(url: str) -> str:
    """Return what may be shown of an address that is allowed, as far as can be told without DNS."""
    try:
        if kind_of(url) == NotificationChannel.Kind.WEBHOOK:
            return f"Webhook, {urlsplit(check_webhook_address(url)).hostname}"
        return _check_service(url)
    except WrongWebhookAddress as error:
        raise WrongAddress(str(error)) from None
    except ValueError as error:
        raise error if isinstance(error, WrongAddress) else WrongAddress("Not valid.") from None


def _check_service(url: str) -> str:
    parts = urlsplit(url)
    service = _BY_SCHEME.get(parts.scheme.lower())
    if service is None:
        known = ", ".join(f"{scheme}://" for scheme in sorted(_BY_SCHEME))
        raise WrongAddress(f"The address must begin with https://, http:// or one of: {known}")
    if len(url) > LONGEST_ADDRESS or any(character.isspace() for character in url):
        raise WrongAddress(f"At most {LONGEST_ADDRESS} characters, and no spaces.")
    if refused := _options(url) & _REFUSED_OPTIONS:
        raise WrongAddress(f"The option {min(refused)} is not allowed.")
    if not service.has_host:
        return service.name
    _refuse_private(parts.hostname or "")
    return f"{service.name}, {parts.hostname}"


def _options(url: str) -> set[str]:
    """The names of its options as Apprise reads them: all after the first question mark."""
    pairs = re.split(r"[&;?#]", url.partition("?")[2])
    return {unquote_plus(pair.partition("=")[0]).lower().strip(" +-:") for pair in pairs}


def _refuse_private(host: str) -> None:
    """Names are checked when a message is sent."""
    try:
        refuse_private_host(host)
    except WrongWebhookAddress as error:
        raise WrongAddress(str(error)) from None
