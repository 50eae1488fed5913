"""A start counts only if its deployment exists."""

import json
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from coolify.client.errors import MalformedAnswer, NotAccepted, NotFound, Unavailable, Unreachable
from coolify.client.resources import Application, ApplicationStatus, Deployment
from coolify.client.starts import deployments_by_application

QUEUED = {"message": "Deployment request queued.", "deployment_uuid": "d-1"}
NO_DEPLOYMENT = {"message": "Deployment not found."}


def iso(moment):
    return moment.strftime("%Y-%m-%dT%H:%M:%S.000000Z")


def now():
    return datetime.now(UTC)


def deployment(uuid="d-1", status="queued", created_at=None, **more):
    return {
        **more,
        "deployment_uuid": uuid,
        "application_name": "pool-zoom-001",
        "status": status,
        "created_at": iso(created_at or now()),
    }


def history(*deployments):
    return {"count": len(deployments), "deployments": list(deployments)}


# --- Starting -------------------------------------------------------------------------------


def test_a_start_is_a_post_without_force(scripted, client):
    scripted.answers(QUEUED)
    answer = client.start("app-1")
    assert (scripted.last.method, scripted.last.path) == ("POST", "/applications/app-1/start")
    assert scripted.last.query == {}
    assert scripted.last.body is None
    assert answer.deployment_uuid == "d-1"
    assert len(scripted.asked) == 1


def test_a_skipped_start_has_no_deployment(scripted, client):
    scripted.answers({"message": "Deployment already queued for this commit."})
    assert client.start("app-1").deployment_uuid is None


def test_a_start_answered_with_a_list_may_have_happened(scripted, client):
    scripted.answers([])
    with pytest.raises(MalformedAnswer) as caught:
        client.start("app-1")
    assert caught.value.maybe_done


# --- Resolving one --------------------------------------------------------------------------


def test_a_deployment_that_exists_costs_one_call(scripted, client):
    scripted.answers(deployment(status="in_progress"))
    found = client.resolve_start("app-1", since=now(), deployment_uuid="d-1")
    assert found.status == "in_progress"
    assert len(scripted.asked) == 1


def test_a_start_without_any_deployment_was_not_accepted(scripted, client):
    scripted.answers(NO_DEPLOYMENT, status=404)
    scripted.answers(history())
    with pytest.raises(NotAccepted) as caught:
        client.resolve_start("app-1", since=now(), deployment_uuid="phantom")
    assert caught.value.retry_after is None
    assert not caught.value.permanent


def test_an_unknown_uuid_is_resolved_through_the_applications_deployments(scripted, client):
    scripted.answers(NO_DEPLOYMENT, status=404)
    scripted.answers(history(deployment("d-2")))
    found = client.resolve_start("app-1", since=now(), deployment_uuid="phantom")
    assert found.uuid == "d-2"
    assert scripted.last.path == "/deployments/applications/app-1"


def test_an_older_deployment_belongs_to_an_earlier_bot(scripted, client):
    scripted.answers(history(deployment("old", created_at=now() - timedelta(minutes=1))))
    with pytest.raises(NotAccepted):
        client.resolve_start("app-1", since=now())


def test_a_deployment_of_an_earlier_start_is_not_this_one(scripted, client):
    scripted.answers(history(deployment("known", status="finished")))
    with pytest.raises(NotAccepted):
        client.resolve_start("app-1", since=now(), earlier={"known"})


def test_a_start_whose_answer_was_lost_is_found_even_if_it_has_ended(scripted, client):
    scripted.answers(history(deployment("d-3", status="finished")))
    found = client.resolve_start("app-1", since=now() - timedelta(seconds=1))
    assert found.status == "finished"


def test_an_active_deployment_comes_before_an_ended_one(scripted, client):
    since = now() - timedelta(minutes=1)
    over = deployment("over", status="cancelled-by-user", created_at=now())
    active = deployment("active", created_at=now() - timedelta(seconds=30))
    scripted.answers(history(over, active))
    assert client.resolve_start("app-1", since=since).uuid == "active"


def test_coolifys_clock_may_be_an_hour_behind(scripted, client):
    theirs = now() - timedelta(hours=1)
    old = deployment("old", created_at=theirs - timedelta(minutes=1))

    def answer_by_their_clock(handler):
        content = json.dumps(history(deployment("d-4", created_at=theirs), old)).encode()
        handler.send_response_only(200)
        handler.send_header("Date", format_datetime(theirs, usegmt=True))
        handler.send_header("Content-Length", str(len(content)))
        handler.end_headers()
        handler.wfile.write(content)

    scripted.acts(answer_by_their_clock)
    assert client.resolve_start("app-1", since=now()).uuid == "d-4"


def test_an_error_while_resolving_is_not_read_as_not_accepted(scripted, client):
    scripted.answers({"message": "Server Error"}, status=500)
    with pytest.raises(Unavailable):
        client.resolve_start("app-1", since=now(), deployment_uuid="d-1")


# --- Which application a deployment belongs to -------------------------------------------------


def test_a_deployment_in_a_list_names_its_application_in_its_link(scripted, client):
    link = "/project/p-1/environment/e-1/application/app-7/deployment/d-1"
    scripted.answers([deployment("d-1", deployment_url=link)])
    [found] = client.deployments()
    assert found.application_uuid == "app-7"


def test_a_single_deployment_contains_its_application(scripted, client):
    scripted.answers(deployment("d-1", application={"uuid": "app-7"}))
    assert client.deployment("d-1").application_uuid == "app-7"


def test_a_deployment_with_another_link_names_no_application(scripted, client):
    scripted.answers(deployment("d-1", deployment_url="/somewhere/else", application=None))
    assert client.deployment("d-1").application_uuid is None


def test_deployments_find_their_application_by_uuid_then_by_name():
    running = ApplicationStatus("running")
    applications = [
        Application("a", running, name="pool-zoom-001"),
        Application("b", running, name="pool-zoom-002"),
        Application("c", running, name="twin"),
        Application("d", running, name="twin"),
    ]
    by_uuid = Deployment("d-1", application_uuid="a", application_name="renamed since")
    by_name = Deployment("d-2", application_name="pool-zoom-002")
    ambiguous = Deployment("d-3", application_name="twin")
    found = deployments_by_application(
        applications=applications, deployments=[by_uuid, by_name, ambiguous]
    )
    assert found == {"a": [by_uuid], "b": [by_name]}


# --- Deployments ----------------------------------------------------------------------------


def test_deployments_come_as_a_list(scripted, client):
    scripted.answers([deployment("d-1"), deployment("d-2", status="in_progress")])
    assert [d.uuid for d in client.deployments()] == ["d-1", "d-2"]


def test_deployments_come_as_an_object_keyed_by_index(scripted, client):
    scripted.answers({"0": deployment("d-1"), "3": deployment("d-2")})
    assert [d.uuid for d in client.deployments()] == ["d-1", "d-2"]


def test_no_deployments_are_an_empty_list(scripted, client):
    scripted.answers([])
    assert client.deployments() == []


def test_an_unknown_status_is_neither_active_nor_ended(scripted, client):
    scripted.answers(deployment(status="paused-by-moon"))
    found = client.deployment("d-1")
    assert not found.is_active
    assert not found.is_ended


def test_the_history_of_an_application_is_short(scripted, client):
    scripted.answers(history(deployment("d-1", status="failed")))
    (found,) = client.application_deployments("app-1")
    assert found.is_ended
    assert scripted.last.query == {"take": "10"}


# --- Cancelling -----------------------------------------------------------------------------


def test_a_cancellation_returns_the_status(scripted, client):
    scripted.answers({"message": "Deployment cancelled.", "status": "cancelled-by-user"})
    assert client.cancel_deployment("d-1").status == "cancelled-by-user"
    assert (scripted.last.method, scripted.last.path) == ("POST", "/deployments/d-1/cancel")


def test_cancelling_an_ended_deployment_is_not_an_error(scripted, client):
    message = "Deployment cannot be cancelled. Current status: finished"
    scripted.answers({"message": message}, status=400)
    cancellation = client.cancel_deployment("d-1")
    assert cancellation.status == "finished"


def test_a_cancellation_answered_with_500_may_have_happened(scripted, client):
    scripted.answers({"message": "Server Error"}, status=500)
    scripted.answers(deployment(status="cancelled-by-user"))
    assert client.cancel_deployment("d-1").status == "cancelled-by-user"


def test_a_cancellation_answered_with_500_that_did_not_happen_is_an_error(scripted, client):
    scripted.answers({"message": "Server Error"}, status=500)
    scripted.answers(deployment(status="in_progress"))
    with pytest.raises(Unavailable):
        client.cancel_deployment("d-1")


def test_a_cancellation_whose_answer_was_lost_is_looked_up(scripted, client):
    scripted.breaks_off()
    scripted.answers(deployment(status="queued"))
    with pytest.raises(Unreachable):
        client.cancel_deployment("d-1")
    assert scripted.last.path == "/deployments/d-1"


def test_the_first_error_is_raised_if_the_lookup_fails_too(scripted, client):
    scripted.answers({"message": "Server Error"}, status=500)
    scripted.answers({"message": "Too Many Attempts."}, status=429)
    with pytest.raises(Unavailable):
        client.cancel_deployment("d-1")


def test_cancelling_an_unknown_deployment_raises_not_found(scripted, client):
    scripted.answers(NO_DEPLOYMENT, status=404)
    with pytest.raises(NotFound) as caught:
        client.cancel_deployment("phantom")
    assert caught.value.thing == "deployment"
