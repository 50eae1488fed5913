"""All models with the label `botpool`; each is defined beside the code that uses it."""

from botpool.telemetry.counter import Tally, TallyMark
from dashboard.models import LoginFailure, OperatorAction, PoolSample
from dashboard.notifications.records import (
    Condition,
    Message,
    Notice,
    NotificationChannel,
    NotificationRule,
)

__all__ = [
    "Condition",
    "LoginFailure",
    "Message",
    "Notice",
    "NotificationChannel",
    "NotificationRule",
    "OperatorAction",
    "PoolSample",
    "Tally",
    "TallyMark",
]
