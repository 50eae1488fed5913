"""When the Python client repeats a call: scripted answers, nothing is sent, no time passes."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import httpx
import pytest
from botpool_client import (
    BotEnded,
    Conflict,
    InvalidRequest,
    NotAllowed,
    NotFound,
    OverQuota,
    RateLimited,
    Retries,
    ServerError,
    UnexpectedAnswer,
    Unreachable,
    WaitTimeout,
    operations,
)
from botpool_client.requests import Send, perform
from botpool_client.waiting import wait_for

BOT = {
    "id": 7,
    "correlationId": "c",
    "status": "QUEUED",
    "platform": "zoom",
    "meetingUrl": "https://zoom.us/j/123456789",
    "botDisplayName": "Bot",
    "priority": 100,
    "createdAt": "2026-11-16T09:30:00Z",
    "aFieldOfTomorrow": {"x": 1},
}
REQUEST = httpx.Request("GET", "http://botpool.example/api/v1/bots/7")


def ok(**fields):
    return httpx.Response(200, json={**BOT, **fields}, request=REQUEST)


def problem(status, *, kind="about:blank", errors=None, **headers):
    body = {"type": kind, "title": "Title", "status": status, "detail": "Detail."}
    return httpx.Response(
        status,
        json=body | ({"errors": errors} if errors else {}),
        headers={"Content-Type": "application/problem+json", **headers},
        request=REQUEST,
    )


def page(status, **headers):
    return httpx.Response(status, html="<h1>Proxy</h1>", headers=headers, request=REQUEST)


class Script:
    """Carries out steps: each send gets the next answer, and sleeping moves the clock."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.sent: list[Send] = []
        self.slept: list[float] = []
        self.now = 0.0

    def clock(self):
        return self.now

    def run(self, steps):
        outcome = None
        while True:
            try:
                step = steps.send(outcome)
            except StopIteration as end:
                return end.value
            if isinstance(step, Send):
                self.sent.append(step)
                outcome = self.answers.pop(0)
            else:
                self.slept.append(step.seconds)
                self.now += step.seconds
                outcome = None

    def call(self, call, **retries):
        return self.run(perform(call, Retries(**retries)))


CREATE = operations.create_bot("https://zoom.us/j/123456789")
DRAIN = operations.drain_server("one", reason="New disk")
PLACED = httpx.Response(
    201, json={"bot": BOT}, headers={"Idempotency-Replayed": "true"}, request=REQUEST
)


def test_a_lost_answer_is_asked_for_again_with_the_same_idempotency_key():
    script = Script(httpx.ReadTimeout("slow"), page(502), PLACED)
    placed = script.call(CREATE)
    assert (placed.bot.id, placed.replayed, placed.created) == (7, True, True)
    assert len({each.call.headers["Idempotency-Key"] for each in script.sent}) == 1
    assert len(script.sent) == 3


def test_each_request_for_a_bot_has_a_key_of_its_own():
    calls = [operations.create_bot("https://zoom.us/j/123456789") for _ in range(2)]
    assert len({call.headers["Idempotency-Key"] for call in calls}) == 2
    own = operations.create_bot("https://zoom.us/j/123456789", idempotency_key="mine")
    assert own.headers["Idempotency-Key"] == "mine"


@pytest.mark.parametrize("seconds", [7, 59])
def test_retry_after_is_respected(seconds):
    script = Script(problem(503, **{"Retry-After": str(seconds)}), ok())
    script.call(operations.get_bot(7))
    assert script.slept == [seconds]


def test_retry_after_may_be_a_date():
    at = format_datetime(datetime.now(UTC) + timedelta(seconds=40), usegmt=True)
    script = Script(problem(429, **{"Retry-After": at}), ok())
    script.call(operations.get_bot(7))
    assert 30 < script.slept[0] <= 40


def test_a_retry_after_beyond_the_longest_pause_is_left_to_the_caller():
    script = Script(problem(429, **{"Retry-After": "61"}))
    with pytest.raises(RateLimited) as caught:
        script.call(operations.get_bot(7))
    assert (caught.value.retry_after, script.slept) == (61, [])


def test_pauses_grow_and_end():
    script = Script(*[problem(503)] * 4)
    with pytest.raises(ServerError):
        script.call(operations.get_bot(7))
    half, one, two = script.slept
    assert 0.25 <= half <= 0.5 <= one <= 1 <= two <= 2


@pytest.mark.parametrize("lost", [httpx.ReadTimeout("slow"), problem(503)])
def test_an_order_to_a_server_is_not_repeated_if_it_may_have_been_carried_out(lost):
    script = Script(lost)
    with pytest.raises((Unreachable, ServerError)):
        script.call(DRAIN)
    assert len(script.sent) == 1


def test_the_error_names_the_host_that_did_not_answer():
    error = httpx.ConnectError("refused", request=httpx.Request("GET", "http://u:pw@botpool:81/x"))
    with pytest.raises(Unreachable, match=r"^No answer from http://botpool:81: refused$"):
        Script(*4 * [error]).call(operations.get_bot(7))


@pytest.mark.parametrize("unsent", [httpx.ConnectError("refused"), problem(429)])
def test_it_is_repeated_if_it_was_not(unsent):
    script = Script(unsent, httpx.ReadError("reset"))
    with pytest.raises(Unreachable) as caught:
        script.call(DRAIN)
    assert (len(script.sent), caught.value.maybe_done) == (2, True)


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (problem(400), InvalidRequest),
        (problem(401), NotAllowed),
        (problem(403), NotAllowed),
        (problem(404), NotFound),
        (problem(409), Conflict),
        (problem(422, errors={"priority": ["Must be at most 1000."]}), InvalidRequest),
        (page(404), UnexpectedAnswer),
        (page(301, Location="https://elsewhere.example/"), UnexpectedAnswer),
        (page(200), UnexpectedAnswer),
        (httpx.Response(200, json={"id": "7"}, request=REQUEST), UnexpectedAnswer),
    ],
)
def test_a_permanent_error_is_raised_at_once(answer, error):
    with pytest.raises(error) as caught:
        Script(answer).call(operations.get_bot(7))
    assert caught.value.permanent


def test_errors_are_there_by_field():
    with pytest.raises(InvalidRequest) as caught:
        Script(problem(422, errors={"priority": ["Must be at most 1000."]})).call(CREATE)
    assert caught.value.errors == {"priority": ("Must be at most 1000.",)}
    assert str(caught.value) == "422 Title: Detail. priority: Must be at most 1000."


def test_over_quota_is_told_from_too_many_calls_and_not_waited_for():
    script = Script(problem(429, kind="urn:botpool:over-quota", **{"Retry-After": "30"}))
    with pytest.raises(OverQuota) as caught:
        script.call(CREATE)
    assert (caught.value.retry_after, caught.value.permanent) == (30, False)


# --- Waiting ------------------------------------------------------------------------------------


def wait(script, *statuses, timeout=60):
    return script.run(
        wait_for(
            7,
            statuses,
            timeout=timeout,
            poll_interval=2,
            retries=Retries(attempts=1),
            clock=script.clock,
        )
    )


def test_it_waits_until_the_bot_has_one_of_the_statuses():
    script = Script(ok(), ok(status="DEPLOYING"), ok(status="IN_CALL"))
    assert wait(script, "IN_CALL", "LEAVING").status == "IN_CALL"
    assert script.slept == [2, 2]


def test_a_bot_that_ends_otherwise_is_an_error():
    with pytest.raises(BotEnded, match="No slot came free") as caught:
        wait(Script(ok(status="FAILED", failureReason="No slot came free")), "IN_CALL")
    assert caught.value.bot.failure_reason == "No slot came free"


def test_it_survives_an_outage_and_respects_retry_after():
    script = Script(ok(), httpx.ConnectError("refused"), problem(503, **{"Retry-After": "9"}))
    script.answers.append(ok(status="DONE"))
    assert wait(script, "DONE").has_ended
    assert script.slept == [2, 2, 9]


def test_the_deadline_holds_and_shows_the_bot_as_last_seen():
    script = Script(*[ok()] * 5)
    with pytest.raises(WaitTimeout, match="is QUEUED after 9 s") as caught:
        wait(script, "IN_CALL", timeout=9)
    assert (script.now, caught.value.bot.id) == (8, 7)


def test_each_try_ends_at_the_deadline():
    script = Script(ok(), ok(status="DONE"))
    wait(script, "DONE", timeout=9)
    assert [each.timeout for each in script.sent] == [9, 7]


def test_a_wrong_key_ends_the_wait():
    with pytest.raises(NotAllowed):
        wait(Script(problem(401)), "DONE")
