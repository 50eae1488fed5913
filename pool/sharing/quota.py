"""What a client may have at once: most bots, and most that wait."""

from bots.models import Bot, Client
from bots.status import TERMINAL, BotStatus


class OverQuota(Exception):
    """The client has as many bots as it may; the message says which limit."""


def set_limits(
    client: Client, *, max_bots: int | None, max_waiting: int | None, share: int
) -> None:
    """They hold for requests from now on."""
    Client.objects.filter(pk=client.pk).update(
        max_bots=max_bots, max_waiting=max_waiting, share=share
    )


def lock_limits(client_id: int | None) -> Client | None:
    """The client's limits, locked until the transaction ends; None if it has none.

    Requests of one client with limits are counted one after the other: two at once would each find
    the last place free.
    """
    if client_id is None:
        return None
    found = Client.objects.select_for_update(no_key=True).filter(pk=client_id).first()
    return found if found is not None and found.is_limited else None


def refuse_one_more_bot(client: Client) -> None:
    """Call this before the bot is made."""
    if client.max_bots is None:
        return
    live = Bot.objects.filter(client=client).exclude(status__in=TERMINAL).count()
    if live >= client.max_bots:
        raise OverQuota(
            f"The client {client} has {live} bots, and may have {client.max_bots} at once. "
            "Cancel one, or wait until one ends."
        )


def refuse_one_more_waiter(client: Client) -> None:
    """Call this before a new bot joins the line."""
    if client.max_waiting is None:
        return
    waiting = Bot.objects.filter(client=client, status=BotStatus.QUEUED).count()
    if waiting >= client.max_waiting:
        raise OverQuota(
            f"No slot is free for this bot, {waiting} bots of the client {client} wait, and at "
            f"most {client.max_waiting} may. Cancel one, or wait until one gets a slot."
        )
