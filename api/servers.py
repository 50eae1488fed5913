"""Coolify's servers, for operators: their states, and taking them out of service."""

from typing import Annotated, Any

from django.http import HttpRequest
from ninja import Path, Router

from api.access import OperatorKey, key_of
from api.problems import Problem, wrong_fields
from api.schemas.parameters import refuse_unknown_parameters
from api.schemas.servers import (
    Maintenance,
    ServerList,
    ServerOrder,
    ServerOut,
    ServerReturn,
    WarmOrder,
    server_out,
)
from api.schemas.words import explained
from pool.servers.orders import (
    OrderRefused,
    UnlikelyTime,
    cordon_server,
    drain_server,
    plan_maintenance,
    return_server,
    warm_image,
)
from pool.servers.overview import overview_of, server_overviews
from servers.models import Server
from servers.reports import named

router = Router(tags=["Servers"], auth=OperatorKey(), by_alias=True)
router.add_decorator(refuse_unknown_parameters)

ServerName = Annotated[
    str,
    Path(
        alias="serverName",
        min_length=1,
        max_length=200,
        pattern=explained(r"^[^\x00]+$", "Must not contain NUL characters."),
    ),
]


@router.get("/servers", response=ServerList, summary="List servers", operation_id="listServers")
def list_servers(request: HttpRequest) -> ServerList:
    """With their states, why they are in them, and how far a drain has come."""
    return ServerList(servers=[server_out(each) for each in server_overviews()])


@router.post(
    "/servers/{serverName}/drain",
    response=ServerOut,
    summary="Drain a server",
    operation_id="drainServer",
)
def drain(request: HttpRequest, server_name: ServerName, order: ServerOrder) -> ServerOut:
    """It gets no new bots. Idle slots leave at once, the others when their meetings end. Refused
    with 409 for the last server in service, and with 422 for an end more than 20 years from now."""
    return _obeyed(request, drain_server, server_name, reason=order.reason, until=order.until)


@router.post(
    "/servers/{serverName}/cordon",
    response=ServerOut,
    summary="Cordon a server",
    operation_id="cordonServer",
)
def cordon(request: HttpRequest, server_name: ServerName, order: ServerOrder) -> ServerOut:
    """It gets no new bots. Its slots stay. Refused with 409 for the last server in service, and
    with 422 for an end more than 20 years from now."""
    return _obeyed(request, cordon_server, server_name, reason=order.reason, until=order.until)


@router.post(
    "/servers/{serverName}/maintenance",
    response=ServerOut,
    summary="Plan a maintenance window",
    operation_id="planMaintenance",
)
def maintenance(request: HttpRequest, server_name: ServerName, window: Maintenance) -> ServerOut:
    """The server drains by itself before the window and returns after it. Refused with 409 if the
    window ends before it begins or is over, and with 422 if it begins more than a year ago or ends
    more than 20 years from now."""
    return _obeyed(
        request,
        plan_maintenance,
        server_name,
        reason=window.reason,
        begins=window.begins,
        ends=window.ends,
    )


@router.post(
    "/servers/{serverName}/warm",
    response=ServerOut,
    summary="Pull an image beforehand",
    operation_id="warmImage",
)
def warm(request: HttpRequest, server_name: ServerName, order: WarmOrder) -> ServerOut:
    """The image is pulled there once no bot needs the build place; `prepulls` shows how far that
    is. Refused with 409 if it is no image with a tag, or no bot starts on that server."""
    return _obeyed(request, warm_image, server_name, reason=order.reason, image=order.image)


@router.post(
    "/servers/{serverName}/return",
    response=ServerOut,
    summary="Return a server to service",
    operation_id="returnServer",
)
def return_to_service(
    request: HttpRequest, server_name: ServerName, body: ServerReturn
) -> ServerOut:
    """Undoes orders and maintenance windows. Nothing changes if there are none."""
    return _obeyed(request, return_server, server_name, reason=body.reason)


def _obeyed(request: HttpRequest, give: Any, name: str, **order: Any) -> ServerOut:
    server = _server(name)
    try:
        give(server, actor=f"key:{key_of(request).name}", **order)
    except UnlikelyTime as error:
        raise wrong_fields({error.field: [f"{error}."]}) from None
    except OrderRefused as error:
        raise Problem(409, f"{error}. Nothing was changed.") from None
    overview = overview_of(server)
    if overview is None:
        raise _no_such_server()
    return server_out(overview)


def _server(name: str) -> Server:
    server = named(name)
    if server is None or overview_of(server) is None:
        raise _no_such_server()
    return server


def _no_such_server() -> Problem:
    return Problem(404, "There is no such server. `GET /api/v1/servers` lists them.")
