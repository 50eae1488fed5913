"""What is said of a waiter: a code for machines and one sentence for people."""

from dataclasses import dataclass
from datetime import datetime

from django.db import models


class WaitingCode(models.TextChoices):
    SLOT = "slot", "Slot"
    PAUSED = "paused", "Platform paused"
    IMAGE = "image", "Image"
    BUILD_PLACE = "build_place", "Build place"
    COOLIFY = "coolify", "Coolify"
    BUDGET = "budget", "Budget of calls"
    START = "start", "Start"
    DEPLOYMENT = "deployment", "Deployment"
    CONTAINER = "container", "Container"
    JOINING = "joining", "Joining the call"
    ADMISSION = "admission", "Admission to the call"
    LEAVING = "leaving", "Leaving the call"


@dataclass(frozen=True)
class WaitingFor:
    """`position`, from 1, where there is a line. `expected_at`: when this wait is expected to end;
    None if it is not known, or if that time has passed."""

    code: WaitingCode
    message: str
    position: int | None = None
    expected_at: datetime | None = None
