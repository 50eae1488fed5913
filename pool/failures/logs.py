"""Which logs are wanted of a failed assignment. The controller reads them."""

from django.conf import settings
from django.db.models.functions import Now

from bots.status import FailureCause
from coolify.client.resources import DeploymentStatus as CoolifyStatus
from slots.deployment import Deployment, DeploymentStatus
from slots.logs import KeptLog, LogSource, LogStatus, NotKept
from slots.models import Slot


def want_logs(slot: Slot, *, cause: FailureCause | None) -> None:
    """Note, in the transaction of the failure, that the logs of this epoch are to be kept.

    If its start was never sent, there are none.
    """
    deployment = Deployment.objects.filter(slot=slot, epoch=slot.epoch).first()
    if deployment is None or deployment.start_asked_at is None:
        return
    logs = [_container_log(slot, deployment), _deployment_log(slot, deployment)]
    for log in logs:
        log.failure_cause = cause or FailureCause.UNKNOWN
    KeptLog.objects.bulk_create(logs, ignore_conflicts=True)


def _container_log(slot: Slot, deployment: Deployment) -> KeptLog:
    # Any earlier container in the slot was another bot's: its log is not this client's to read.
    started = DeploymentStatus.FINISHED, CoolifyStatus.FINISHED
    has_run = deployment.status == started[0] or deployment.coolify_status == started[1]
    return _log(
        slot,
        deployment,
        LogSource.CONTAINER,
        uuid=slot.coolify_uuid,
        missing=None if has_run and slot.coolify_uuid else NotKept.NO_CONTAINER,
    )


def _deployment_log(slot: Slot, deployment: Deployment) -> KeptLog:
    uuid = deployment.deployment_uuid
    missing = None if uuid else NotKept.NO_DEPLOYMENT
    return _log(slot, deployment, LogSource.DEPLOYMENT, uuid=uuid, missing=missing)


def _log(
    slot: Slot, deployment: Deployment, source: LogSource, *, uuid: str, missing: NotKept | None
) -> KeptLog:
    return KeptLog(
        slot=slot,
        slot_name=slot.name,
        bot_id=deployment.bot_id,
        epoch=slot.epoch,
        source=source,
        coolify_uuid=uuid,
        server_uuid=slot.server_uuid,
        status=LogStatus.NOT_KEPT if missing else LogStatus.WANTED,
        because=missing or "",
        deadline=Now() + settings.LOG_DEADLINE,
        ended_at=Now() if missing else None,
    )
