"""A container's status, judged by what Coolify says about its application and deployments."""

from coolify.client.resources import Application
from pool.controller.belief.answers import status_is_current
from slots.status import ContainerStatus

_BY_STATE = {
    "running": ContainerStatus.RUNNING,
    "restarting": ContainerStatus.CRASHING,
    "starting": ContainerStatus.DEPLOYING,
    "paused": ContainerStatus.STOPPED,
    "degraded": ContainerStatus.FAILED,
    "error": ContainerStatus.FAILED,
}


def container_status(
    application: Application,
    *,
    deployment_active: bool,
    last_deployment_failed: bool,
    ever_deployed: bool,
) -> ContainerStatus | None:
    """None means unknown: Coolify cannot reach the server, or reports a state that we do not know.
    Unknown is not gone."""
    state = application.status.state
    if not status_is_current(application):
        return None
    if deployment_active:
        return ContainerStatus.DEPLOYING
    if application.status.is_exited:
        if last_deployment_failed:
            return ContainerStatus.FAILED
        return ContainerStatus.STOPPED if ever_deployed else ContainerStatus.IDLE
    return _BY_STATE.get(state)
