"""All models with the label `botpool`; each is defined beside the code that uses it."""

from botpool.telemetry.counter import Tally, TallyMark
from dashboard.models import LoginFailure, OperatorAction, PoolSample

__all__ = [
    "LoginFailure",
    "OperatorAction",
    "PoolSample",
    "Tally",
    "TallyMark",
]
