"""The line is looked at as soon as something has changed that may let a waiter go ahead."""

from collections.abc import Callable

from django.db import transaction

from slots.models import Slot


def drain_after_commit(platform: str, *, if_any_served: Callable[[], None] | None = None) -> None:
    """Call this in the transaction that frees a slot, adds a waiter or makes room."""

    def drain_now() -> None:  # named, because Django logs the name of one that fails
        if _drain(platform) and if_any_served is not None:
            if_any_served()

    transaction.on_commit(drain_now, robust=True)


def _drain(platform: str) -> list[Slot]:
    # Here, because a drain needs slots.lifecycle, which nudges.
    from queues.drain import drain

    return drain(platform)
