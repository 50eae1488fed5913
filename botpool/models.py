"""All models with the label `botpool`; each is defined beside the code that uses it."""

from botpool.telemetry.counter import Tally, TallyMark
from core.jobs.periodic import PeriodicWork
from core.jobs.ticker import TickerLease
from dashboard.models import LoginFailure, OperatorAction, PoolSample

__all__ = [
    "LoginFailure",
    "OperatorAction",
    "PeriodicWork",
    "PoolSample",
    "Tally",
    "TallyMark",
    "TickerLease",
]
