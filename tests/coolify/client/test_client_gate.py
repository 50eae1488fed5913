"""The gate is called before and after every single request."""

import inspect
import multiprocessing
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from datetime import UTC, datetime

import pytest

from coolify.client import Coolify
from coolify.client.calls import CALLS, Call, CallClass, Outcome
from coolify.client.errors import BudgetExhausted, RateLimited
from coolify.client.image import Image


@dataclass
class Ledger:
    """A gate that records every call."""

    calls: list[Call] = field(default_factory=list)
    outcomes: list[tuple[Outcome, object]] = field(default_factory=list)

    def before(self, call):
        self.calls.append(call)
        return f"permit {len(self.calls)}"

    def after(self, call, outcome, permit):
        self.outcomes.append((outcome, permit))


class Closed(Ledger):
    def before(self, call):
        super().before(call)
        raise BudgetExhausted("Nothing left.", retry_after=3, reason="limit")


@pytest.fixture
def ledger():
    return Ledger()


@pytest.fixture
def gated(scripted, ledger):
    return Coolify(scripted.url, "t", gate=ledger)


def test_the_gate_gets_its_permit_back_with_the_outcome(scripted, gated, ledger):
    scripted.answers([], X_RateLimit_Limit="200", X_RateLimit_Remaining="150")
    gated.applications()
    ((outcome, permit),) = ledger.outcomes
    assert permit == "permit 1"
    assert (outcome.status, outcome.error) == (200, None)
    assert (outcome.limit, outcome.remaining) == (200, 150)


def test_every_call_is_in_the_list_of_calls(scripted):
    gate = Closed()
    coolify = Coolify(scripted.url, "t", gate=gate)
    image = Image("registry.example/bot", "1.0")
    new = {"project_uuid": "p", "server_uuid": "s", "environment_name": "e", "name": "n"}
    options = {
        "applications": [{}, {"observing": True}],
        "deployments": [{}, {"observing": True}],
        "environments": [{}, {"spare": True}],
        "update_application": [
            {"description": "d"},
            {"description": "d", "overdue": True},
            {"image": image},
        ],
        "create_application": [{**new, "image": image}],
        "set_envs": [{"variables": {"A": "b"}}],
        "set_webhook": [{"url": "https://botpool.example/"}],
        "resolve_start": [{"since": datetime.now(UTC)}],
    }
    for name in (name for name in vars(Coolify) if not name.startswith("_")):
        method = getattr(coolify, name)
        first = next(iter(inspect.signature(method).parameters), "")
        given = ["u"] if first.endswith("uuid") and name != "create_application" else []
        for each in options.get(name, [{}]):
            with pytest.raises(BudgetExhausted):
                method(*given, **each)
    made = {(call.call_class, call.name) for call in gate.calls}
    assert made == {(of, name) for of, names in CALLS.items() for name in names}


def test_the_gate_sees_errors(scripted, gated, ledger):
    scripted.answers({"message": "Too Many Attempts."}, status=429, Retry_After="9")
    with pytest.raises(RateLimited):
        gated.applications()
    assert ledger.outcomes[0][0].error.retry_after == 9


def test_the_gate_sees_malformed_answers(scripted, gated, ledger):
    scripted.answers(b"<html>")
    with pytest.raises(Exception, match="HTML"):
        gated.applications()
    assert ledger.outcomes[0][0].error.kind == "MalformedAnswer"


def test_a_retry_passes_the_gate_again(scripted, gated, ledger):
    scripted.answers({}, status=502)
    scripted.answers([])
    gated.applications()
    assert [permit for _, permit in ledger.outcomes] == ["permit 1", "permit 2"]


def test_a_closed_gate_sends_nothing(scripted):
    with pytest.raises(BudgetExhausted) as caught:
        Coolify(scripted.url, "t", gate=Closed()).start("app-1")
    assert caught.value.retry_after == 3
    assert not caught.value.permanent
    assert not scripted.asked


def test_each_call_has_its_class(scripted, gated, ledger):
    scripted.answers({"uuid": "a", "deployment_uuid": "d", "status": "cancelled-by-user"})
    gated.start("a")
    gated.stop("a")
    gated.cancel_deployment("d")
    gated.delete_application("a")
    gated.set_envs("a", {"A": "1"})
    gated.update_application("a", image=Image("bot"))
    gated.create_application(
        project_uuid="p", server_uuid="s", environment_name="e", image=Image("bot"), name="n"
    )
    assert {call.call_class for call in ledger.calls} == {CallClass.URGENT}

    gated.update_application("a", description="x")
    assert ledger.calls[-1].call_class == CallClass.TEXT

    gated.application("a")
    gated.deployment("d")
    assert {call.call_class for call in ledger.calls[-2:]} == {CallClass.WATCH}


def test_a_bot_costs_one_call_a_step(scripted, gated, ledger):
    scripted.answers({"deployment_uuid": "d"})
    gated.set_envs("a", {"BOT_DATA": "x"})
    gated.start("a")
    gated.stop("a")
    gated.update_application("a", description="x")
    assert len(ledger.calls) == 4


# --- Threads and processes ------------------------------------------------------------------


def test_threads_share_a_client_but_no_connection(scripted):
    scripted.answers([])
    client = Coolify(scripted.url, "t")
    started = threading.Barrier(4)

    def read_twice():
        started.wait()
        client.applications()
        client.applications()

    threads = [threading.Thread(target=read_twice) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({asked.connection for asked in scripted.asked}) == 4


@pytest.mark.slow
def test_a_forked_process_opens_its_own_connection(scripted):
    scripted.answers([])
    client = Coolify(scripted.url, "t")
    client.applications()
    child = multiprocessing.get_context("fork").Process(target=client.applications)
    child.start()
    child.join(60)
    assert child.exitcode == 0
    client.applications()
    first, forked, again = (asked.connection for asked in scripted.asked)
    assert first == again != forked


@pytest.mark.slow
def test_the_client_imports_no_django():
    script = (
        "import sys, coolify.client.endpoints, coolify.description_text, "
        "coolify.bot_data, coolify.client.image;"
        "sys.exit(any(name.split('.')[0] == 'django' for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_each_call_has_words_for_people():
    for call_class, names in CALLS.items():
        for name in names:
            assert Call(name, call_class, "GET", "/").purpose != name.replace("_", " ")
