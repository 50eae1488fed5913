"""What a bot can be, and every move from one to another."""

from django.db import models


class Platform(models.TextChoices):
    GOOGLE_MEET = "google-meet", "Google Meet"
    TEAMS = "teams", "Microsoft Teams"
    ZOOM = "zoom", "Zoom"


class BotStatus(models.TextChoices):
    PENDING = "PENDING", "Pending"
    QUEUED = "QUEUED", "Queued"
    DEPLOYING = "DEPLOYING", "Deploying"
    JOINING_CALL = "JOINING_CALL", "Joining the call"
    IN_WAITING_ROOM = "IN_WAITING_ROOM", "In the waiting room"
    IN_CALL = "IN_CALL", "In the call"
    LEAVING = "LEAVING", "Leaving"
    DONE = "DONE", "Done"
    FAILED = "FAILED", "Failed"
    CANCELLED = "CANCELLED", "Cancelled"


class FailureKind(models.TextChoices):
    INFRASTRUCTURE = "infrastructure", "Infrastructure"
    MEETING = "meeting", "Meeting"


_S = BotStatus

TERMINAL = (_S.DONE, _S.FAILED, _S.CANCELLED)
WAITING = (_S.PENDING, _S.QUEUED)
RUNNING = (_S.JOINING_CALL, _S.IN_WAITING_ROOM, _S.IN_CALL, _S.LEAVING)
HOLDS_SLOT = (_S.DEPLOYING, *RUNNING)

# From each status, the ones a bot may move to. The database holds the same table (models.py).
MOVES: dict[BotStatus, tuple[BotStatus, ...]] = {
    _S.PENDING: (_S.QUEUED, _S.DEPLOYING, _S.FAILED, _S.CANCELLED),
    _S.QUEUED: (_S.DEPLOYING, _S.FAILED, _S.CANCELLED),
    # Back to QUEUED when the slot failed before the bot ran: it is placed again.
    _S.DEPLOYING: (_S.JOINING_CALL, _S.QUEUED, _S.FAILED, _S.CANCELLED),
    _S.JOINING_CALL: (_S.IN_WAITING_ROOM, _S.IN_CALL, _S.LEAVING, *TERMINAL),
    _S.IN_WAITING_ROOM: (_S.IN_CALL, _S.LEAVING, *TERMINAL),
    # A host can send a participant back to the waiting room.
    _S.IN_CALL: (_S.IN_WAITING_ROOM, _S.LEAVING, *TERMINAL),
    _S.LEAVING: TERMINAL,
    _S.DONE: (),
    _S.FAILED: (),
    _S.CANCELLED: (),
}


def statuses_that_may_become(status: BotStatus) -> list[BotStatus]:
    return [before for before, after in MOVES.items() if status in after]
