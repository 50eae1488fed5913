"""For operators: end a pause of the calls, or probe Coolify, before the time is up."""

from django.db.models.functions import Least, Now

from coolify.models import Budget


def lift_pause() -> bool:
    """End the pause that Coolify asked for; False if there is none. If Coolify still refuses calls,
    its next 429 begins a new one."""
    paused = Budget.objects.filter(paused_until__gt=Now())
    return bool(paused.update(paused_until=None, pause_reason=""))


def probe_now() -> bool:
    """Let one call through an open circuit; False if it is closed. If that call succeeds, the
    circuit closes; if not, the pauses between probes begin small again."""
    is_open = Budget.objects.filter(open_until__isnull=False)
    return bool(
        is_open.update(open_until=Least("open_until", Now()), probe_until=None, failed_probes=0)
    )
