"""The logs that were kept of a bot's failures."""

from datetime import datetime
from typing import Any

from pydantic import ConfigDict, Field

from api.schemas.bots import Outgoing
from bots.status import FailureCause
from slots.logs import KeptLog, LogSource, LogStatus, NotKept, lines_of

A_LOG: dict[str, Any] = {
    "id": 7,
    "source": "container",
    "status": "kept",
    "failureCode": "reported_by_bot",
    "slotName": "pool-zoom-001",
    "failedAt": "2026-11-16T09:31:00Z",
    "readAt": "2026-11-16T09:31:01Z",
    "truncated": False,
    "lines": [
        {"at": "2026-11-16T09:30:59.120Z", "text": "the host declined the request to join"},
        {"at": "2026-11-16T09:30:59.480Z", "text": "exited with 1: reported FAILED"},
    ],
    "notKeptCode": None,
    "notKeptReason": None,
}


class LogLineOut(Outgoing):
    at: datetime | None = Field(description="Null if the line has no time.")
    text: str


class LogOut(Outgoing):
    model_config = ConfigDict(json_schema_extra={"examples": [A_LOG]})

    id: int
    source: LogSource = Field(description="The bot's container, or Coolify's deployment of it.")
    status: LogStatus = Field(
        description="`wanted`: it is being read; ask again. `not_kept`: notKeptReason says why."
    )
    failure_code: FailureCause = Field(description="The failure that it was kept for.")
    slot_name: str
    failed_at: datetime
    read_at: datetime | None
    truncated: bool = Field(description="Only the end of the log was kept.")
    lines: list[LogLineOut] = Field(description="Oldest first. Secrets are hidden.")
    not_kept_code: NotKept | None
    not_kept_reason: str | None


class LogList(Outgoing):
    model_config = ConfigDict(json_schema_extra={"examples": [{"logs": [A_LOG]}]})

    logs: list[LogOut]


def log_out(log: KeptLog) -> LogOut:
    is_kept = log.status == LogStatus.KEPT
    return LogOut(
        id=log.pk,
        source=LogSource(log.source),
        status=LogStatus(log.status),
        failure_code=FailureCause(log.failure_cause),
        slot_name=log.slot_name,
        failed_at=log.created_at,
        read_at=log.ended_at if is_kept else None,
        truncated=log.is_cut,
        lines=[LogLineOut(at=line.at, text=line.text) for line in lines_of(log.text)],
        not_kept_code=NotKept(log.because) if log.because else None,
        not_kept_reason=NotKept(log.because).label if log.because else None,
    )
