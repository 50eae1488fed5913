"""Requests and responses about Coolify's servers."""

from datetime import datetime
from typing import Annotated, Any

from pydantic import AwareDatetime, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

from api.schemas.bots import Incoming, Outgoing
from api.schemas.pool import Reason, SlotCounts
from coolify.client.image import LONGEST
from pool.servers.overview import ServerOverview
from servers.health import ServerState
from servers.models import Server
from slots.deployment import WarmImage
from slots.images import Prepull, PrepullStatus


def _written_out(given: Any) -> Any:
    """A number could be seconds or milliseconds, and would be taken for either."""
    if isinstance(given, str) and "-" in given.strip(" -"):
        return given
    raise PydanticCustomError("time", "Must be a time with its zone, as 2030-11-20T06:00:00Z.")


Moment = Annotated[AwareDatetime, BeforeValidator(_written_out)]


class OrderOut(Outgoing):
    order: Server.Order
    since: datetime | None
    until: datetime | None
    reason: str
    by: str


class WindowOut(Outgoing):
    begins: datetime
    ends: datetime
    reason: str
    by: str


class ImageOut(Outgoing):
    image: str
    state: str = Field(description="warm, doubted or cold.")
    confirmed_at: datetime | None
    cold_reason: str | None


class PrepullOut(Outgoing):
    image: str
    status: PrepullStatus
    detail: str = Field(description="What it waits for, or how it ended.")
    since: datetime
    asked_by: str
    reason: str


class ServerOut(Outgoing):
    uuid: str
    name: str
    state: ServerState
    state_since: datetime
    reason: str
    evidence: dict[str, Any]
    order: OrderOut | None
    maintenance: WindowOut | None
    slots: SlotCounts
    build_places: int
    free_build_places: int
    images: list[ImageOut]
    prepulls: list[PrepullOut] = Field(description="The last one of each image.")
    progress: str | None = Field(description="How far a drain has come.")
    last_meeting_ends_at: datetime | None = Field(description="An estimate, during a drain.")
    reported_at: datetime | None


class ServerList(Outgoing):
    servers: list[ServerOut]


class ServerOrder(Incoming):
    model_config = ConfigDict(
        json_schema_extra={"examples": [{"reason": "New disk", "until": "2030-11-20T06:00:00Z"}]}
    )

    reason: Reason
    until: Annotated[Moment | None, Field(description="When it returns by itself.")] = None


class ServerReturn(Incoming):
    model_config = ConfigDict(json_schema_extra={"examples": [{"reason": "The disk is in"}]})

    reason: Reason


class WarmOrder(Incoming):
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"reason": "New release", "image": "registry.example/bot:1.4"}]
        }
    )

    reason: Reason
    image: Annotated[str, Field(min_length=1, max_length=LONGEST, description="With its tag.")]


class Maintenance(Incoming):
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "reason": "New kernel",
                    "begins": "2030-11-20T04:00:00Z",
                    "ends": "2030-11-20T06:00:00Z",
                }
            ]
        }
    )

    reason: Reason
    begins: Moment
    ends: Moment


def server_out(overview: ServerOverview) -> ServerOut:
    server = overview.server
    return ServerOut(
        uuid=server.uuid,
        name=server.name,
        state=ServerState(server.state),
        state_since=server.state_since,
        reason=server.state_reason,
        evidence=server.state_evidence,
        order=_order(server),
        maintenance=_window(server),
        slots=SlotCounts(**overview.slots),
        build_places=overview.build_places,
        free_build_places=overview.free_build_places,
        images=[_image(each) for each in overview.images],
        prepulls=[_prepull(each) for each in overview.prepulls],
        progress=overview.progress or None,
        last_meeting_ends_at=overview.last_meeting_ends_at,
        reported_at=server.read_at,
    )


def _image(image: WarmImage) -> ImageOut:
    return ImageOut(
        image=image.image,
        state=image.state,
        confirmed_at=image.confirmed_at or image.warmed_at,
        cold_reason=image.cold_reason or None,
    )


def _prepull(prepull: Prepull) -> PrepullOut:
    return PrepullOut(
        image=prepull.image,
        status=PrepullStatus(prepull.status),
        detail=prepull.detail,
        since=prepull.status_since,
        asked_by=prepull.asked_by,
        reason=prepull.reason,
    )


def _order(server: Server) -> OrderOut | None:
    if not server.order:
        return None
    return OrderOut(
        order=Server.Order(server.order),
        since=server.order_since,
        until=server.order_until,
        reason=server.order_reason,
        by=server.order_by,
    )


def _window(server: Server) -> WindowOut | None:
    if server.window_from is None or server.window_until is None:
        return None
    return WindowOut(
        begins=server.window_from,
        ends=server.window_until,
        reason=server.window_reason,
        by=server.window_by,
    )
