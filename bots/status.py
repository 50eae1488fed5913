"""The platforms, the bot statuses and the table of allowed moves."""

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


class FailureCause(models.TextChoices):
    """Why a bot or a start failed, for machines. People read the reason."""

    REPORTED_BY_BOT = "reported_by_bot", "Reported by the bot"
    QUEUE_TIMEOUT = "queue_timeout", "Waited too long"
    START_REFUSED = "start_refused", "Start refused"
    START_TIMED_OUT = "start_timed_out", "Start timed out"
    DEPLOYMENT_FAILED = "deployment_failed", "Deployment failed"
    CONTAINER_FAILED = "container_failed", "Container failed"
    CONTAINER_GONE = "container_gone", "Container gone"
    APPLICATION_GONE = "application_gone", "Application gone"
    HEARTBEAT_LOST = "heartbeat_lost", "Heartbeat lost"
    MEETING_TOO_LONG = "meeting_too_long", "Meeting too long"
    SERVER_LOST = "server_lost", "Server out of service"
    STOP_FAILED = "stop_failed", "Stop failed"
    OPERATOR = "operator", "Ended by an operator"
    INCONSISTENT = "inconsistent", "Records contradicted each other"
    UNKNOWN = "unknown", "Not recorded"

    @property
    def kind(self) -> FailureKind:
        is_the_bots_own = self in (FailureCause.REPORTED_BY_BOT, FailureCause.MEETING_TOO_LONG)
        return FailureKind.MEETING if is_the_bots_own else FailureKind.INFRASTRUCTURE


# No bot fails because its server is out of service: it is placed elsewhere.
BOTS_FAIL_BY = tuple(cause for cause in FailureCause if cause != FailureCause.SERVER_LOST)

_S = BotStatus

TERMINAL = (_S.DONE, _S.FAILED, _S.CANCELLED)
WAITING = (_S.PENDING, _S.QUEUED)
RUNNING = (_S.JOINING_CALL, _S.IN_WAITING_ROOM, _S.IN_CALL, _S.LEAVING)
HOLDS_SLOT = (_S.DEPLOYING, *RUNNING)

# For each status, where a bot may move next. A constraint in models.py enforces this table.
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


def may_become(before: str, after: BotStatus) -> bool:
    return after in MOVES[BotStatus(before)]
