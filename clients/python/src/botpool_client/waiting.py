"""Waiting for a bot's status."""

from __future__ import annotations

import time
from collections.abc import Callable

from botpool_client.errors import BotEnded, BotpoolError, WaitTimeout
from botpool_client.operations import get_bot
from botpool_client.requests import Retries, Sleep, Steps, perform
from botpool_client.results import Bot


def wait_for(
    bot_id: int,
    statuses: tuple[str, ...],
    *,
    timeout: float,
    poll_interval: float,
    retries: Retries,
    clock: Callable[[], float] = time.monotonic,
) -> Steps[Bot]:
    """Errors that may pass, such as a restart of Botpool, are waited out until the deadline."""
    if not statuses:
        raise TypeError("wait_for needs at least one status")
    deadline = clock() + timeout
    bot: Bot | None = None
    trouble: BotpoolError | None = None
    while True:
        try:
            bot = yield from perform(get_bot(bot_id), retries, deadline=deadline, clock=clock)
            trouble = None
        except BotpoolError as error:
            if error.permanent:
                raise
            trouble = error
        if bot is not None and trouble is None:
            if bot.status in statuses:
                return bot
            if bot.has_ended:
                raise BotEnded(bot)
        pause = max(poll_interval, (trouble.retry_after or 0) if trouble else 0)
        if clock() + pause >= deadline:
            raise WaitTimeout(_words(bot_id, bot, timeout), bot=bot) from trouble
        yield Sleep(pause)


def _words(bot_id: int, bot: Bot | None, timeout: float) -> str:
    if bot is None:
        return f"Bot {bot_id} could not be seen within {timeout:g} s"
    waits = f", {bot.waiting_for.message}" if bot.waiting_for else ""
    return f"Bot {bot_id} is {bot.status} after {timeout:g} s{waits}"
