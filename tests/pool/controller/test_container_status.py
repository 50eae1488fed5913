"""Container statuses and verdicts on deployments: every combination, as tables."""

from datetime import UTC, datetime, timedelta

import pytest

from coolify.client.resources import Application, ApplicationStatus
from pool.controller.container_status import container_status
from pool.controller.verdict import Evidence, Verdict, judge
from slots.status import ContainerStatus as C

STATES = [
    "running:healthy",
    "running:unhealthy",
    "running:unknown",
    "restarting:unknown",
    "starting:unknown",
    "paused:unknown",
    "degraded:unhealthy",
    "error",
    "exited:unhealthy",
    "stopped",
    "",
    "dancing:healthy",
]

# An application on a reachable server without an active deployment. By its state: never deployed,
# last deployment over, last deployment failed.
AT_REST = {
    "running:healthy": (C.RUNNING, C.RUNNING, C.RUNNING),
    "running:unhealthy": (C.RUNNING, C.RUNNING, C.RUNNING),
    "running:unknown": (C.RUNNING, C.RUNNING, C.RUNNING),
    "restarting:unknown": (C.CRASHING, C.CRASHING, C.CRASHING),
    "starting:unknown": (C.DEPLOYING, C.DEPLOYING, C.DEPLOYING),
    "paused:unknown": (C.STOPPED, C.STOPPED, C.STOPPED),
    "degraded:unhealthy": (C.FAILED, C.FAILED, C.FAILED),
    "error": (C.FAILED, C.FAILED, C.FAILED),
    "exited:unhealthy": (C.IDLE, C.STOPPED, C.FAILED),
    "stopped": (C.IDLE, C.STOPPED, C.FAILED),
    "": (None, None, None),
    "dancing:healthy": (None, None, None),
}


def application(state, *, reachable=True):
    status = ApplicationStatus.parse(state)
    return Application(uuid="a", status=status, server_reachable=reachable)


def status_of(state, *, reachable=True, active=False, past="never"):
    return container_status(
        application(state, reachable=reachable),
        deployment_active=active,
        last_deployment_failed=past == "failed",
        ever_deployed=past != "never",
    )


@pytest.mark.parametrize("state", STATES)
def test_at_rest_the_state_decides_and_for_exited_what_was_before(state):
    pasts = ("never", "over", "failed")
    assert tuple(status_of(state, past=past) for past in pasts) == AT_REST[state]


@pytest.mark.parametrize("past", ["never", "over", "failed"])
@pytest.mark.parametrize("state", STATES)
def test_while_a_deployment_is_active_it_is_deploying(state, past):
    assert status_of(state, past=past, active=True) == C.DEPLOYING


@pytest.mark.parametrize("active", [True, False])
@pytest.mark.parametrize("past", ["never", "over", "failed"])
@pytest.mark.parametrize("state", STATES)
def test_of_a_server_out_of_reach_nothing_is_known(state, past, active):
    assert status_of(state, past=past, active=active, reachable=False) is None


@pytest.mark.parametrize("state", STATES)
def test_an_old_coolify_that_says_nothing_of_its_server_is_believed(state):
    assert status_of(state, reachable=None) == status_of(state, reachable=True)


# --- Verdicts ---

NOW = datetime(2026, 1, 1, tzinfo=UTC)
GRACE = timedelta(minutes=3)
LONG_AGO, JUST_NOW = NOW - timedelta(minutes=4), NOW - timedelta(minutes=2)

# Application's state (None: not in the list), active, how it ended, when, the verdict.
TABLE = [
    (None, False, "", None, Verdict.ASK_APPLICATION),
    (None, True, "", None, Verdict.ASK_APPLICATION),
    (None, False, "failed", LONG_AGO, Verdict.ASK_APPLICATION),
    ("running:healthy", True, "", None, Verdict.WAIT),
    ("exited:unhealthy", True, "", None, Verdict.WAIT),
    ("degraded:unhealthy", True, "", None, Verdict.WAIT),
    ("error", True, "", None, Verdict.WAIT),
    # A container that runs may be the one before, if Docker did not stop it.
    ("running:healthy", False, "", None, Verdict.ASK_DEPLOYMENT),
    ("running:healthy", False, "failed", JUST_NOW, Verdict.DEPLOYMENT_FAILED),
    ("running:healthy", False, "finished", JUST_NOW, Verdict.RUNS),
    ("running:unhealthy", False, "finished", LONG_AGO, Verdict.RUNS),
    ("exited:unhealthy", False, "", None, Verdict.ASK_DEPLOYMENT),
    ("restarting:unknown", False, "", None, Verdict.ASK_DEPLOYMENT),
    ("degraded:unhealthy", False, "", None, Verdict.ASK_DEPLOYMENT),
    ("", False, "", None, Verdict.ASK_DEPLOYMENT),
    ("exited:unhealthy", False, "failed", JUST_NOW, Verdict.DEPLOYMENT_FAILED),
    ("exited:unhealthy", False, "cancelled-by-user", JUST_NOW, Verdict.DEPLOYMENT_FAILED),
    ("exited:unhealthy", False, "finished", JUST_NOW, Verdict.WAIT),
    ("stopped", False, "finished", JUST_NOW, Verdict.WAIT),
    ("restarting:unknown", False, "finished", JUST_NOW, Verdict.WAIT),
    ("starting:unknown", False, "finished", JUST_NOW, Verdict.WAIT),
    ("exited:unhealthy", False, "finished", LONG_AGO, Verdict.CONTAINER_FAILED),
    ("stopped", False, "finished", LONG_AGO, Verdict.CONTAINER_FAILED),
    ("restarting:unknown", False, "finished", LONG_AGO, Verdict.CONTAINER_FAILED),
    ("degraded:unhealthy", False, "finished", JUST_NOW, Verdict.CONTAINER_FAILED),
    ("error", False, "finished", JUST_NOW, Verdict.CONTAINER_FAILED),
]


def evidence(state, *, active, ended_as, ended_at, reachable=True, late=False):
    seen = status_of(state or "exited", active=active, past="over")
    return Evidence(
        now=NOW,
        deadline=NOW + timedelta(minutes=-1 if late else 1),
        container=seen or C.STOPPED,  # if Coolify does not know, the last observation stays
        application_missing=state is None,
        server_unreachable=not reachable,
        ended_as=ended_as,
        ended_at=ended_at,
        grace=GRACE,
    )


@pytest.mark.parametrize(("state", "active", "ended_as", "ended_at", "verdict"), TABLE)
def test_a_deployment_is_judged(state, active, ended_as, ended_at, verdict):
    seen = evidence(state, active=active, ended_as=ended_as, ended_at=ended_at)
    found, reason = judge(seen)
    assert found is verdict
    assert reason


@pytest.mark.parametrize(("state", "active", "ended_as", "ended_at", "verdict"), TABLE)
def test_after_its_deadline_only_waiting_becomes_a_timeout(
    state, active, ended_as, ended_at, verdict
):
    seen = evidence(state, active=active, ended_as=ended_as, ended_at=ended_at, late=True)
    expected = Verdict.TIMED_OUT if verdict is Verdict.WAIT else verdict
    assert judge(seen)[0] is expected


@pytest.mark.parametrize(
    ("state", "active", "ended_as", "ended_at"), [row[:4] for row in TABLE if row[0] is not None]
)
def test_of_a_server_out_of_reach_nothing_is_judged(state, active, ended_as, ended_at):
    seen = evidence(state, active=active, ended_as=ended_as, ended_at=ended_at, reachable=False)
    assert judge(seen)[0] is Verdict.WAIT
