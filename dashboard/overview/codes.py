"""What can need attention, as codes. Rules of notifications and other code refer to these."""

from django.db import models


class Severity(models.TextChoices):
    """How soon an operator should look."""

    URGENT = "urgent", "Urgent"
    WARNING = "warning", "Warning"
    INFO = "info", "Information"


class AttentionCode(models.TextChoices):
    WORKER_GONE = "worker_gone", "No worker runs"
    TICKER_GONE = "ticker_gone", "No ticker runs"
    COOLIFY_AWAY = "coolify_away", "Coolify is away or not believed"
    CALLS_PAUSED = "calls_paused", "Calls to Coolify are paused"
    REPAIRS_HELD_BACK = "repairs_held_back", "Repairs are held back"
    BOTS_UNHEARD = "bots_unheard", "Bots cannot be heard"
    SERVER_UNREACHABLE = "server_unreachable", "A server is unreachable"
    SERVER_DEGRADED = "server_degraded", "A server is degraded"
    IMAGE_PULL_FAILED = "image_pull_failed", "An image could not be pulled"
    IMAGE_RESTORED = "image_restored", "A platform uses its earlier image"
    BOTS_FAILING = "bots_failing", "Many bots of a platform fail"
    BOTS_GIVE_UP = "bots_give_up", "Bots will give up before their turn"
    QUEUE_SLOW = "queue_slow", "A bot waits for long"
    NO_SLOT_FREE = "no_slot_free", "Bots wait, and no slot is free"
    SLOTS_IN_ERROR = "slots_in_error", "Slots are in error"
    SLOT_FAILING = "slot_failing", "A slot fails again and again"
    SLOT_QUARANTINED = "slot_quarantined", "A slot is quarantined"
    STOP_FAILS = "stop_fails", "A container does not stop"
    WEBHOOK_DISABLED = "webhook_disabled", "A client's webhook is disabled"
    CHANNEL_FAILING = "channel_failing", "A notification channel fails"
    LEASE_HELD = "lease_held", "A lease is held for too long"
    PLATFORM_PAUSED = "platform_paused", "A platform is paused"


_C = AttentionCode
_URGENT = {
    _C.WORKER_GONE, _C.TICKER_GONE, _C.COOLIFY_AWAY, _C.REPAIRS_HELD_BACK, _C.BOTS_UNHEARD,
    _C.SERVER_UNREACHABLE, _C.BOTS_FAILING, _C.BOTS_GIVE_UP,
}  # fmt: skip
_INFO = {_C.PLATFORM_PAUSED, _C.IMAGE_RESTORED}


def severity_of(code: str) -> Severity:
    if code in _URGENT:
        return Severity.URGENT
    return Severity.INFO if code in _INFO else Severity.WARNING
