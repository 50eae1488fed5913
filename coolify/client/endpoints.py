"""Coolify's API: one method per endpoint that Botpool uses, with typed results.

If Coolify does not do as asked, a method raises an error from `coolify.client.errors` and no other.
Coolify only queues a start, stop or delete. No method waits for it to finish, or sleeps for long.

Threads can share one `Coolify`, and it survives a fork: each thread of each process keeps its own
connection.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from coolify.client.bodies import (
    application_changes,
    environment_variable,
    new_application,
    without_unknown_fields,
)
from coolify.client.calls import Call, CallClass, Gate
from coolify.client.deployment_log import log_of
from coolify.client.errors import (
    CoolifyError,
    MalformedAnswer,
    NotAccepted,
    NotFound,
    NotRunning,
    Refused,
    Unavailable,
    Unreachable,
)
from coolify.client.image import Image
from coolify.client.parsing import (
    Item,
    flag,
    parse_indexed_list,
    parse_list,
    parse_object,
    required,
)
from coolify.client.paths import application_path, segment
from coolify.client.resources import (
    Application,
    Cancellation,
    Cleanup,
    CreatedApplication,
    Deployment,
    DeploymentStatus,
    Environment,
    Project,
    Server,
    ServerResource,
)
from coolify.client.starts import StartAnswer, newest_since
from coolify.client.transport import DEFAULT_TIMEOUT, Answer, Transport

# Reading logs is a synchronous SSH session inside Coolify.
LOGS_TIMEOUT = 60.0
NO_PREVIEW = "-"
# How many deployments of an application are looked at.
HISTORY = 10

WEBHOOK_PATH = "/notifications/webhook"
WEBHOOK_EVENTS = dict.fromkeys(
    (
        "deployment_failure_webhook_notifications",
        "restart_limit_reached_webhook_notifications",
        "server_reachable_webhook_notifications",
        "server_unreachable_webhook_notifications",
    ),
    True,
)
DOCKER_TIMEOUT = 20.0

VERSION_PATTERN = re.compile(r"v?\d+\.\d+[\w.+-]*")
NOT_CANCELLABLE = re.compile(r"cannot be cancelled\. Current status: ([\w-]+)")


class Coolify:
    def __init__(
        self,
        base_url: str,
        token: str,
        *,
        gate: Gate | None = None,
        timeout: float = DEFAULT_TIMEOUT,
    ) -> None:
        """`base_url` ends in `/api/v1`. `timeout` limits a whole call, in seconds."""
        self._transport = Transport(base_url, token, gate=gate, timeout=timeout)

    def __repr__(self) -> str:
        return f"Coolify({self._transport.base_url!r})"

    # --- The installation ---------------------------------------------------------------

    def version(self) -> str:
        answer = self._read("version", "/version", as_text=True)
        text = str(answer.data).strip().strip('"')
        if not VERSION_PATTERN.fullmatch(text):
            raise MalformedAnswer(
                "Coolify did not answer with a version number. Is this the address of its API?"
            )
        return text

    def servers(self) -> list[Server]:
        answer = self._read("servers", "/servers")
        return parse_list(answer.data, Server.parse, what="servers")

    def server_resources(self, server_uuid: str) -> list[ServerResource]:
        """What is on a server, with little more than statuses: a small part of `applications`."""
        path = f"/servers/{segment(server_uuid)}/resources"
        answer = self._read("server_resources", path, observing=True)
        return parse_indexed_list(answer.data, ServerResource.parse, what="a server's resources")

    def destinations(self, server_uuid: str) -> list[str]:
        """A server's destinations. If there are several, a new application must name one."""
        path = f"/servers/{segment(server_uuid)}/destinations"
        answer = self._read("destinations", path)
        return parse_list(answer.data, lambda item: required(item, "uuid"), what="destinations")

    def docker_cleanup(self, server_uuid: str) -> Cleanup:
        """How images are cleaned up on a server (from 4.3.0)."""
        answer = self._read("docker_cleanup", f"/servers/{segment(server_uuid)}/docker-cleanup")
        return parse_object(answer.data, Cleanup.parse, what="the clean-up of a server")

    def notifies_of_failures(self) -> bool:
        """Whether the team's webhook is notified of failed deployments. Where it leads is shown
        only to a token with `read:sensitive`."""
        answer = self._read("webhook_notifications", WEBHOOK_PATH)
        return parse_object(
            answer.data,
            lambda item: bool(
                flag(item, "webhook_enabled")
                and flag(item, "deployment_failure_webhook_notifications")
            ),
            what="webhook notifications",
        )

    def set_webhook(self, url: str) -> None:
        """Notify this address of failures. Coolify refuses private addresses (422)."""
        body = {"webhook_enabled": True, "webhook_url": url, **WEBHOOK_EVENTS}
        self._do("set_webhook", "PATCH", WEBHOOK_PATH, body=body)

    def projects(self) -> list[Project]:
        answer = self._read("projects", "/projects")
        return parse_list(answer.data, Project.parse, what="projects")

    def environments(self, project_uuid: str, *, spare: bool = False) -> list[Environment]:
        """`spare`: from what other calls leave of the budget."""
        path = f"/projects/{segment(project_uuid)}/environments"
        answer = self._read("environments", path, spare=spare)
        return parse_list(answer.data, Environment.parse, what="environments")

    # --- Applications -------------------------------------------------------------------

    def applications(self, *, observing: bool = False) -> list[Application]:
        """Return all of them in one call: Coolify does not paginate."""
        answer = self._read("applications", "/applications", observing=observing)
        return parse_list(answer.data, Application.parse, what="applications")

    def application(self, uuid: str, *, timeout: float | None = None) -> Application:
        answer = self._read("application", application_path(uuid), timeout=timeout)
        return parse_object(answer.data, Application.parse, what="an application")

    def create_application(
        self,
        *,
        project_uuid: str,
        server_uuid: str,
        environment_name: str,
        image: Image,
        name: str,
        description: str | None = None,
        destination_uuid: str | None = None,
    ) -> CreatedApplication:
        """Create an application without starting it.

        Names are not unique in Coolify and the call is not idempotent: after an error with
        `maybe_done`, search for the name before you repeat it.
        """
        where = {
            "project_uuid": project_uuid,
            "server_uuid": server_uuid,
            "environment_name": environment_name,
            "destination_uuid": destination_uuid,
        }
        what = {"name": name, "description": description}
        return self._create(new_application(where=where, what=what, image=image))

    def update_application(
        self,
        uuid: str,
        *,
        description: str | None = None,
        image: Image | None = None,
        settings: bool = False,
        overdue: bool = False,
    ) -> None:
        """`settings`: those that `create_application` sets, for an application created before.
        `overdue`: a description that has been wrong for long, which is not put off any more."""
        body = application_changes(description=description, image=image, settings=settings)
        is_text = image is None and not settings
        call_class = CallClass.TEXT if is_text else CallClass.URGENT
        if overdue:
            call_class = CallClass.WATCH
        call = Call("update_application", call_class, "PATCH", application_path(uuid))
        try:
            self._transport.send(call, body=body)
        except Refused as error:
            known = without_unknown_fields(body, error)
            if known is None:
                raise
            if known:
                self._transport.send(call, body=known)

    def delete_application(self, uuid: str) -> None:
        """Only queued: the application stays in the lists until Coolify's job has run."""
        # A clean-up would prune the image that other slots on that server start from.
        query = {"docker_cleanup": "false"}
        self._do("delete_application", "DELETE", application_path(uuid), query=query)

    def image_tags(self, uuid: str) -> list[str]:
        """The tags of the application's image on its server (from 4.3.0). Empty on any error in
        Coolify: it proves that an image is there, never that it is not."""
        path = f"{application_path(uuid)}/rollback-images"
        answer = self._read("image_tags", path, timeout=DOCKER_TIMEOUT)
        listed = answer.data.get("images") if isinstance(answer.data, dict) else answer.data
        return parse_list(listed, lambda item: required(item, "tag"), what="images")

    def set_envs(
        self, uuid: str, variables: Mapping[str, str], *, secret: Collection[str] = ()
    ) -> None:
        """Create or overwrite these variables, and keep all others. The next start uses them.

        Coolify copies the first value of a variable for preview deployments and keeps that copy
        for ever. The copies of `secret` variables are overwritten.
        Not transactional in Coolify: after an error, some of them may be written.
        """
        items = [environment_variable(key, value) for key, value in variables.items()]
        # Last: the copy is made when its variable is.
        items += [environment_variable(key, NO_PREVIEW, is_preview=True) for key in secret]
        body = {"data": items}
        with _may_be_done():
            self._do("set_envs", "PATCH", f"{application_path(uuid)}/envs/bulk", body=body)

    # --- Running ------------------------------------------------------------------------

    def start(self, uuid: str) -> StartAnswer:
        """One call. Check its answer, which is only a claim (see `coolify.client.starts`)."""
        answer = self._do("start", "POST", f"{application_path(uuid)}/start")
        with _may_be_done():
            return parse_object(answer.data, StartAnswer.parse, what="a start")

    def resolve_start(
        self,
        uuid: str,
        *,
        since: datetime,
        deployment_uuid: str | None = None,
        earlier: Collection[str] = (),
    ) -> Deployment:
        """Return the deployment that a start of this application led to, or raise NotAccepted.

        `since` is when that start was first requested, by our clock, after its environment was
        written. `deployment_uuid` is what it answered, if anything came back. `earlier` are
        deployments known to belong to other starts: clocks agree only to a few seconds.
        Costs one call if that uuid is real, else two.
        """
        if deployment_uuid is not None:
            try:
                return self.deployment(deployment_uuid)
            except NotFound:
                pass
        return self._newest_deployment(uuid, since=since, earlier=earlier)

    def stop(self, uuid: str) -> None:
        """Only queued. It does not cancel deployments: cancel those first."""
        # Clean-up is on by default and prunes the images that keep the pool warm.
        query = {"docker_cleanup": "false"}
        self._do("stop", "POST", f"{application_path(uuid)}/stop", query=query)

    def logs(
        self,
        uuid: str,
        *,
        lines: int = 100,
        timeout: float = LOGS_TIMEOUT,
        with_times: bool = False,
    ) -> str:
        """Slow. Raises NotRunning if no container is running."""
        times = {"show_timestamps": "true"} if with_times else {}
        try:
            answer = self._read(
                "logs",
                f"{application_path(uuid)}/logs",
                query={"lines": lines, **times},
                timeout=timeout,
            )
        except Refused as error:
            if "not running" in error.message:
                raise NotRunning(str(error), status=error.status or 400) from error
            raise
        return parse_object(answer.data, lambda item: str(item.get("logs") or ""), what="logs")

    def container_runs(self, uuid: str) -> bool:
        """Whether Docker runs the application's container at this moment, whatever its status.

        Coolify looks for the container over SSH before it reads the log.
        """
        try:
            self.logs(uuid, lines=1, timeout=DOCKER_TIMEOUT)
        except NotRunning:
            return False
        return True

    # --- Deployments --------------------------------------------------------------------

    def deployments(self, *, observing: bool = False) -> list[Deployment]:
        """Only those queued or in progress: a missing one has ended, or never existed."""
        answer = self._read("deployments", "/deployments", observing=observing)
        return parse_indexed_list(answer.data, Deployment.parse, what="deployments")

    def deployment(self, uuid: str) -> Deployment:
        answer = self._read("deployment", f"/deployments/{segment(uuid)}")
        return parse_object(answer.data, Deployment.parse, what="a deployment")

    def deployment_log(self, uuid: str, *, timeout: float = DEFAULT_TIMEOUT) -> str | None:
        """From what other calls leave of the budget. None if the token lacks `read:sensitive`."""
        path = f"/deployments/{segment(uuid)}"
        answer = self._read("deployment", path, timeout=timeout, spare=True)
        return parse_object(answer.data, log_of, what="a deployment")

    def application_deployments(self, uuid: str) -> list[Deployment]:
        """The newest ones first, including those that have ended."""
        return _history(self._application_deployments(uuid))

    def cancel_deployment(self, uuid: str) -> Cancellation:
        """Return the deployment's status now. One that had already ended is not an error."""
        call = Call(
            "cancel_deployment",
            CallClass.URGENT,
            "POST",
            f"/deployments/{segment(uuid)}/cancel",
        )
        try:
            answer = self._transport.send(call)
        except Refused as error:
            ended = NOT_CANCELLABLE.search(error.message)
            if ended is None:
                raise
            return Cancellation(status=ended[1])
        except (Unavailable, Unreachable) as error:
            return self._cancelled_after_all(uuid, error)
        status = answer.data.get("status") if isinstance(answer.data, dict) else None
        return Cancellation(status=str(status or DeploymentStatus.CANCELLED))

    # --- Internals ----------------------------------------------------------------------

    def _read(
        self,
        name: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        timeout: float | None = None,
        as_text: bool = False,
        observing: bool = False,
        spare: bool = False,
    ) -> Answer:
        usual = CallClass.OBSERVE if observing else CallClass.WATCH
        call = Call(name, CallClass.TEXT if spare else usual, "GET", path)
        return self._transport.send(call, query=query, timeout=timeout, as_text=as_text)

    def _do(
        self,
        name: str,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> Answer:
        call = Call(name, CallClass.URGENT, method, path)
        return self._transport.send(call, query=query, body=body)

    def _create(self, body: Item) -> CreatedApplication:
        try:
            answer = self._do("create_application", "POST", "/applications/dockerimage", body=body)
        except Refused as error:
            known = without_unknown_fields(body, error)
            if known is None:
                raise
            answer = self._do("create_application", "POST", "/applications/dockerimage", body=known)
        with _may_be_done():
            return parse_object(answer.data, CreatedApplication.parse, what="a new application")

    def _application_deployments(self, uuid: str) -> Answer:
        path = f"/deployments/applications/{segment(uuid)}"
        return self._read("application_deployments", path, query={"take": HISTORY})

    def _newest_deployment(
        self, uuid: str, *, since: datetime, earlier: Collection[str]
    ) -> Deployment:
        answer = self._application_deployments(uuid)
        unknown = [found for found in _history(answer) if found.uuid not in earlier]
        found = newest_since(unknown, since=since, clock_offset=answer.clock_offset)
        if found is None:
            raise NotAccepted(
                "Coolify accepted the start but created no deployment: its deployment queue on "
                "that server is full, or an older deployment is still active. "
                "The start will be repeated later.",
            )
        return found

    def _cancelled_after_all(self, uuid: str, error: CoolifyError) -> Cancellation:
        # Before 4.3.7, Coolify may answer a successful cancellation with 500.
        try:
            deployment = self.deployment(uuid)
        except NotFound:
            raise
        except CoolifyError as second:
            raise error from second
        if not deployment.is_ended:
            raise error
        return Cancellation(status=deployment.status)


def _history(answer: Answer) -> list[Deployment]:
    data = answer.data
    listed = data.get("deployments") if isinstance(data, dict) else data
    return parse_indexed_list(listed, Deployment.parse, what="an application's deployments")


@contextmanager
def _may_be_done() -> Iterator[None]:
    """Set `maybe_done` on errors: Coolify may have done its work before the answer failed."""
    try:
        yield
    except (MalformedAnswer, Refused) as error:
        error.maybe_done = True
        raise
