"""What a slot can be, and every move from one to another."""

from django.db import models


class SlotStatus(models.TextChoices):
    IDLE = "idle", "Idle"
    DEPLOYING = "deploying", "Deploying"
    BUSY = "busy", "Busy"
    STOPPING = "stopping", "Stopping"
    ERROR = "error", "Error"


class ContainerStatus(models.TextChoices):
    """The container as last observed in Coolify."""

    IDLE = "IDLE", "Never deployed"
    DEPLOYING = "DEPLOYING", "Deploying"
    RUNNING = "RUNNING", "Running"
    STOPPED = "STOPPED", "Stopped"
    FAILED = "FAILED", "Failed"
    CRASHING = "CRASHING", "Crashing"


_S = SlotStatus

HELD = (_S.DEPLOYING, _S.BUSY)

# From each status, the ones a slot may move to. The database holds the same table (models.py).
MOVES: dict[SlotStatus, tuple[SlotStatus, ...]] = {
    # To STOPPING when a container is found running in an idle slot.
    _S.IDLE: (_S.DEPLOYING, _S.STOPPING, _S.ERROR),
    _S.DEPLOYING: (_S.BUSY, _S.STOPPING, _S.ERROR),
    _S.BUSY: (_S.STOPPING, _S.ERROR),
    _S.STOPPING: (_S.IDLE, _S.ERROR),
    # An error ends only with a stop: what runs in the slot is not known.
    _S.ERROR: (_S.STOPPING,),
}
