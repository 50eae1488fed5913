"""Calls that bots make from their containers."""

from typing import Annotated

from django.http import HttpRequest
from ninja import Path, Router

from api.access import BotId, BotToken, assignment_of
from api.problems import Problem
from api.schemas.bots import BotOfContainer, StatusReport, Stay, bot_fields, shown_reason
from api.schemas.words import explained
from bots.models import Bot
from bots.status import BotStatus
from pool.reports import note_late_call, record_heartbeat, record_status
from slots.models import Slot
from slots.tokens import Assignment

router = Router(tags=["Bot callbacks"], auth=BotToken(), by_alias=True)

CoolifyUuid = Annotated[
    str,
    Path(
        alias="coolifyServiceUuid",
        min_length=1,
        max_length=64,
        pattern=explained(
            r"^[A-Za-z0-9_-]+$", "Must have letters, digits, dashes and underscores only."
        ),
    ),
]


@router.post(
    "/bots/{int:id}/heartbeat",
    response=Stay,
    summary="Send a heartbeat",
    operation_id="recordHeartbeat",
)
def heartbeat(request: HttpRequest, bot_id: BotId) -> Stay:
    assignment = assignment_of(request, bot_id=bot_id)
    return Stay(should_leave=not record_heartbeat(assignment))


@router.post(
    "/bots/{int:id}/status",
    response=Stay,
    summary="Report a status",
    operation_id="reportStatus",
)
def status(request: HttpRequest, bot_id: BotId, report: StatusReport) -> Stay:
    """`DONE` and `FAILED` release the slot. A status that arrives twice or too late changes
    nothing. The only move backwards is from `IN_CALL` to `IN_WAITING_ROOM`: a host can send the
    bot back, which is recorded 100 times at most. Unknown fields are ignored."""
    assignment = assignment_of(request, bot_id=bot_id)
    reached = BotStatus(report.status)
    stays = record_status(assignment, reached, reason=_reason(request, report, assignment))
    return Stay(should_leave=not stays)


def _reason(request: HttpRequest, report: StatusReport, assignment: Assignment) -> str:
    if not report.reason:
        return ""
    bot = Bot.objects.filter(pk=assignment.bot_id).first()
    token = request.headers["Authorization"].rpartition(" ")[2]
    return shown_reason(report.reason, bot=bot, token=token)


@router.get(
    "/slots/{coolifyServiceUuid}/bot",
    response=BotOfContainer,
    summary="Get the bot of a container",
    operation_id="getBotOfContainer",
)
def bot_of_container(request: HttpRequest, coolify_service_uuid: CoolifyUuid) -> BotOfContainer:
    """Returns the bot assigned to this container's slot, with its `config`. After the release,
    returns the bot that ran here, with `released: true`. A container sees only its own bot."""
    assignment = assignment_of(request)
    slot = Slot.objects.filter(coolify_uuid=coolify_service_uuid).first()
    bot = Bot.objects.filter(pk=assignment.bot_id).first()
    if bot is None or not _ran_here(bot, slot, assignment, uuid=coolify_service_uuid):
        raise Problem(404, "This token's bot does not run in this container.")
    released = slot is None or not _holds(slot, assignment)
    if released:
        note_late_call(assignment)
    fields = bot_fields(bot, None)  # its container asks, so it runs
    return BotOfContainer(**fields, config=bot.config, released=released, should_leave=released)


def _ran_here(bot: Bot, slot: Slot | None, assignment: Assignment, *, uuid: str) -> bool:
    in_this_slot = slot is not None and slot.pk == assignment.slot_id
    return in_this_slot or bot.coolify_service_uuid == uuid


def _holds(slot: Slot, assignment: Assignment) -> bool:
    return assignment == Assignment(
        bot_id=slot.assigned_bot_id or 0, slot_id=slot.pk, epoch=slot.epoch
    )
