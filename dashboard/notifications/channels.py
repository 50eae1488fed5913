"""Make, change, enable and disable channels."""

from django.db import transaction

from dashboard.notifications.delivery import run_courier
from dashboard.notifications.records import Message, NotificationChannel
from dashboard.notifications.sealing import seal
from dashboard.notifications.sending import give_up
from dashboard.notifications.services import WrongAddress, check_address, kind_of


def check_thoroughly(url: str) -> str:
    """Like `check_address`, and Apprise has to understand it. Nothing is sent."""
    shown = check_address(url)
    if kind_of(url) == NotificationChannel.Kind.SERVICE:
        outcome = run_courier(url)
        if not outcome.sent:
            raise WrongAddress(outcome.error)
    return shown


def save_channel(channel: NotificationChannel, *, name: str, url: str) -> None:
    """An empty address keeps the one it has."""
    channel.name = name
    if url:
        channel.kind, channel.shown = kind_of(url), check_address(url)[:200]
        channel.sealed_url = seal(url)
    if channel.pk is None:
        channel.save()
    else:
        channel.save(update_fields=["name", "kind", "shown", "sealed_url"])


def enable_channel(channel: NotificationChannel) -> bool:
    row = NotificationChannel.objects.filter(pk=channel.pk, enabled=False)
    return bool(row.update(enabled=True, failing_since=None, failures=0, last_error=""))


@transaction.atomic
def disable_channel(channel: NotificationChannel) -> bool:
    """A message on its way is given up: what it told is told once the channel is enabled."""
    if not NotificationChannel.objects.filter(pk=channel.pk, enabled=True).update(enabled=False):
        return False
    for message in Message.objects.filter(channel=channel, status=Message.Status.WAITING):
        give_up(message, error="The channel was disabled.")
    return True
