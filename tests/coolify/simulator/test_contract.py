"""The client and the simulator agree with each other and with Coolify's OpenAPI document.

Every test drives the simulator through the client. If the published document is available, each
request and each answer is checked against it.
"""

import time
from datetime import UTC, datetime

import pytest

from coolify.bot_data import encode_bot_data
from coolify.client import Coolify
from coolify.client.errors import (
    AbilityMissing,
    AddressNotAllowed,
    ApiDisabled,
    MalformedAnswer,
    NotAccepted,
    NotFound,
    NotRunning,
    RateLimited,
    Refused,
    Unauthenticated,
    Unavailable,
    Unreachable,
)
from coolify.client.image import Image
from coolify.description_text import DescriptionStyle, describe_busy
from coolify.simulator.control_client import SimulatorControl
from coolify.simulator.messages import Answer, Request
from coolify.simulator.settings import (
    DEFAULT_ENVIRONMENT,
    DEFAULT_PROJECT,
    DEFAULT_SERVER,
    DEFAULT_TOKEN,
    Token,
)
from core.correlation import correlated
from tests.published_coolify import PUBLISHED, PublishedCoolify
from tests.simulated_coolify import NEVER, simulated_coolify, wait_until

IMAGE = Image("registry.example/bot", "1")
SLOW = {"cold_pull_seconds": NEVER}
slow = pytest.mark.parametrize("simulator", [SLOW], indirect=True)


@pytest.fixture(autouse=True)
def conversation(simulator):
    """All requests and answers between client and simulator, checked after the test."""
    exchanges: list[tuple[Request, Answer]] = []
    simulator.observe(lambda request, answer: exchanges.append((request, answer)))
    yield exchanges
    assert all(request.wants_json for request, _ in exchanges)
    if PUBLISHED.exists():
        published = PublishedCoolify.load()
        undistorted = [pair for pair in exchanges if pair[1].content_type == "application/json"]
        complaints = [text for pair in undistorted for text in published.complaints(*pair)]
        assert complaints == []


@pytest.fixture
def coolify(simulator):
    return Coolify(simulator.api_url, DEFAULT_TOKEN, timeout=20)


@pytest.fixture
def control(simulator):
    with SimulatorControl(simulator.url) as control:
        yield control


def create(coolify, name="pool-zoom-001", **more):
    return coolify.create_application(
        project_uuid=DEFAULT_PROJECT,
        server_uuid=more.pop("server_uuid", DEFAULT_SERVER),
        environment_name=more.pop("environment_name", DEFAULT_ENVIRONMENT),
        image=IMAGE,
        name=name,
        **more,
    ).uuid


def run(coolify, uuid):
    started = coolify.start(uuid)
    wait_until(lambda: coolify.deployment(started.deployment_uuid).status == "finished")
    wait_until(lambda: not coolify.application(uuid).status.is_exited)
    return started.deployment_uuid


def test_the_simulator_understands_every_client_method(coolify, control, conversation):
    assert coolify.version() == "4.3.11"
    assert [each.uuid for each in coolify.servers()] == [DEFAULT_SERVER]
    assert [each.uuid for each in coolify.projects()] == [DEFAULT_PROJECT]
    assert [each.name for each in coolify.environments(DEFAULT_PROJECT)] == [DEFAULT_ENVIRONMENT]
    uuid = create(coolify, description="[IDLE] Available")
    coolify.update_application(uuid, description="[BUSY] Bot #1", image=Image("other/bot", "2"))
    coolify.set_envs(uuid, {"BOT_DATA": "eyJhIjogMX0=", "POOL_SLOT_UUID": uuid})
    deployment = run(coolify, uuid)
    assert [each.uuid for each in coolify.applications()] == [uuid]
    [resource] = coolify.server_resources(DEFAULT_SERVER)
    assert (resource.uuid, resource.status.is_exited) == (uuid, False)
    assert coolify.application(uuid).description == "[BUSY] Bot #1"
    assert [each.uuid for each in coolify.application_deployments(uuid)] == [deployment]
    assert coolify.cancel_deployment(deployment).status == "finished"
    assert coolify.logs(uuid)
    control.change(warm_pull_seconds=NEVER)  # the next start must still be in progress below
    again = coolify.start(uuid).deployment_uuid
    assert [each.uuid for each in coolify.deployments()] == [again]
    coolify.stop(uuid)
    coolify.delete_application(uuid)
    with pytest.raises(NotFound):
        wait_until(lambda: coolify.application(uuid) is None)
    assert {answer.status for _, answer in conversation} <= {200, 201, 400, 404}


# Creating


def test_an_application_is_created_as_a_pool_needs_it(coolify, control):
    uuid = create(coolify, description="[IDLE] Available")
    [row] = control.state()["applications"]
    assert row["fqdn"] is None
    assert row["options"]["is_consistent_container_name_enabled"] is True
    assert (row["image_name"], row["image_tag"]) == (IMAGE.name, IMAGE.tag)
    assert str(coolify.application(uuid).status) == "exited:unhealthy"
    assert control.record()["pulls"] == []


@pytest.mark.parametrize(
    "simulator",
    [{"version": version, "boot_seconds": NEVER} for version in ("4.1.0", "4.3.11")],
    indirect=True,
)
def test_the_client_works_with_old_and_new_versions(coolify):
    uuid = create(coolify)
    run(coolify, uuid)
    assert coolify.application(uuid).status.is_running


def test_the_environment_reaches_the_bot_unharmed(coolify, control, botpool):
    config = {"note": "a #hash, $HOME and {braces}", "simulate": {"meetingSeconds": NEVER}}
    uuid = create(coolify)
    data = encode_bot_data(botpool.data(bot=12, epoch=34, **config))
    coolify.set_envs(uuid, {"BOT_DATA": data, "POOL_SLOT_UUID": uuid})
    run(coolify, uuid)
    [container] = control.containers()
    assert (container["bot_id"], container["epoch"]) == ("12", 34)
    wait_until(lambda: "IN_CALL" in botpool.statuses())
    assert botpool.fetches() == [f"/api/v1/slots/{uuid}/bot"]


def test_variables_that_are_not_set_again_are_kept(coolify, simulator):
    uuid = create(coolify)
    coolify.set_envs(uuid, {"A": "1", "B": "2"})
    coolify.set_envs(uuid, {"A": "3"})
    kept = {each.key: each.value for each in simulator.world.variables[uuid] if not each.is_preview}
    assert kept == {"A": "3", "B": "2"}


@pytest.mark.parametrize("style", list(DescriptionStyle))
def test_a_description_arrives_unchanged(coolify, style):
    uuid = create(coolify)
    text = describe_busy(bot=123, since=datetime(2025, 12, 16, 21, 30, tzinfo=UTC), style=style)
    coolify.update_application(uuid, description=text)
    assert coolify.application(uuid).description == text


# Starts


@slow
def test_a_start_beyond_the_queue_is_not_accepted(coolify, control):
    control.change_server(deployment_queue_limit=1)
    for number in range(3):
        coolify.start(create(coolify, f"pool-zoom-{number}"))
    uuid, asked_at = create(coolify), datetime.now(UTC)
    answer = coolify.start(uuid)
    assert answer.deployment_uuid
    assert answer.deployment_uuid not in {each.uuid for each in coolify.deployments()}
    with pytest.raises(NotAccepted) as caught:
        coolify.resolve_start(uuid, since=asked_at, deployment_uuid=answer.deployment_uuid)
    assert caught.value.retry_after is None
    assert not caught.value.permanent


@slow
def test_a_skipped_start_is_resolved_through_the_history(coolify):
    uuid, asked_at = create(coolify), datetime.now(UTC)
    first = coolify.start(uuid)
    assert coolify.start(uuid).deployment_uuid is None
    assert coolify.resolve_start(uuid, since=asked_at).uuid == first.deployment_uuid


@slow
@pytest.mark.parametrize("as_object", [True, False])
def test_active_deployments_are_read_in_both_shapes(coolify, control, as_object):
    control.change(deployments_as_object=as_object)
    assert coolify.deployments() == []
    answers = [coolify.start(create(coolify, f"pool-{number}")) for number in range(3)]
    listed = coolify.deployments()
    assert [each.status for each in listed] == ["in_progress", "in_progress", "queued"]
    assert {each.uuid for each in listed} == {each.deployment_uuid for each in answers}


def test_a_start_whose_answer_was_lost_is_found_again(coolify, control):
    uuid = create(coolify)
    since = datetime.now(UTC)
    control.lose_answer(path="/start$", times=1)
    with pytest.raises(Unreachable) as caught:
        coolify.start(uuid)
    assert caught.value.maybe_done
    [made] = control.state()["deployments"]
    assert coolify.resolve_start(uuid, since=since).uuid == made["uuid"]


def test_a_running_application_is_replaced_without_overlap(coolify, control, botpool):
    uuid = create(coolify)
    coolify.set_envs(uuid, {"BOT_DATA": encode_bot_data(botpool.data())})
    run(coolify, uuid)
    run(coolify, uuid)
    first, second = control.containers()
    assert first["ended_at"] <= second["started_at"]


def test_a_bot_that_exits_is_seen_restarting(coolify, control):
    uuid = create(coolify)
    control.change(shortest_restart=0.5)
    run(coolify, uuid)
    wait_until(lambda: coolify.application(uuid).status.is_restarting)
    wait_until(lambda: (coolify.application(uuid).restart_count or 0) > 0)


@slow
def test_a_cancellation_that_answers_500_is_read_again(coolify, control):
    control.add_fault("cancel_answers_500", times=1)
    deployment = coolify.start(create(coolify)).deployment_uuid
    assert coolify.cancel_deployment(deployment).status == "cancelled-by-user"


def test_stopping_and_deleting_keep_the_image(coolify, control):
    uuid = create(coolify)
    run(coolify, uuid)
    coolify.stop(uuid)
    wait_until(lambda: coolify.application(uuid).status.is_exited)
    coolify.delete_application(uuid)
    wait_until(lambda: coolify.applications() == [])
    assert control.state()["servers"][0]["cached_images"] == [str(IMAGE)]


def test_logs_need_a_running_application(coolify):
    with pytest.raises(NotRunning):
        coolify.logs(create(coolify))


def test_the_tags_of_an_image_on_the_server_are_listed(coolify, control):
    uuid = create(coolify)
    assert coolify.image_tags(uuid) == []
    control.warm_image(str(IMAGE))
    assert coolify.image_tags(uuid) == [IMAGE.tag]


def test_an_unreachable_server_is_shown(coolify, control):
    uuid = create(coolify)
    control.set_reachable(False)
    assert coolify.application(uuid).server_reachable is False
    assert coolify.servers()[0].is_reachable is False


# Errors


def with_token(simulator, token):
    return Coolify(simulator.api_url, token, timeout=20)


def test_a_wrong_token(simulator):
    with pytest.raises(Unauthenticated):
        with_token(simulator, "1|wrong").applications()


@pytest.mark.parametrize(
    "simulator", [{"tokens": [Token("2|reader", frozenset({"read"}))]}], indirect=True
)
def test_a_missing_ability_is_named(simulator):
    with pytest.raises(AbilityMissing) as caught:
        with_token(simulator, "2|reader").start("x")
    assert caught.value.ability == "deploy"


def test_a_disabled_api(coolify, control):
    control.add_fault("api_disabled")
    with pytest.raises(ApiDisabled):
        coolify.applications()


def test_a_refused_address(coolify, control):
    control.add_fault("address_refused")
    with pytest.raises(AddressNotAllowed):
        coolify.applications()


@pytest.mark.parametrize("simulator", [{"rate_limit": 1}], indirect=True)
def test_the_rate_limit_says_when_to_retry(coolify):
    coolify.version()
    with pytest.raises(RateLimited) as caught:
        coolify.version()
    assert 0 < caught.value.retry_after <= 60


@pytest.mark.parametrize("call", ["application", "start", "stop", "delete_application"])
def test_an_unknown_application(coolify, call):
    with pytest.raises(NotFound):
        getattr(coolify, call)("nothing")


def test_an_unknown_deployment(coolify):
    with pytest.raises(NotFound):
        coolify.deployment("nothing")


@pytest.mark.parametrize("place", ["server_uuid", "environment_name"])
def test_an_unknown_place(coolify, place):
    with pytest.raises(NotFound):
        create(coolify, **{place: "nowhere"})


def test_a_name_that_is_too_long_is_refused_by_field(coolify):
    with pytest.raises(Refused) as caught:
        create(coolify, "x" * 256)
    assert list(caught.value.errors) == ["name"]


@pytest.mark.parametrize("destinations", [[], ["one", "two"]])
def test_a_server_without_a_clear_destination(coolify, control, destinations):
    control.change_server(destinations=destinations)
    with pytest.raises(Refused, match="destination"):
        create(coolify)


def test_a_destination_may_be_chosen(coolify, control):
    control.change_server(destinations=["one", "two"])
    assert create(coolify, destination_uuid="two")


@pytest.mark.parametrize(
    "errors", [{"name": ["Bad."]}, {"name": "Bad."}, ["Bad."], "Bad."], ids=str
)
def test_a_refusal_is_understood_in_every_shape(coolify, control, errors):
    body = {"message": "Validation failed.", "errors": errors}
    control.answer_with(422, method="PATCH", body=body)
    with pytest.raises(Refused, match="Bad"):
        coolify.update_application("x", description="y")


def test_a_description_that_is_too_long(coolify):
    uuid = create(coolify)
    with pytest.raises(Unavailable):
        coolify.update_application(uuid, description="x" * 256)


@pytest.mark.parametrize("status", [500, 502, 503])
def test_a_failing_coolify(coolify, control, status):
    control.answer_with(status)
    with pytest.raises(Unavailable):
        coolify.applications()


def test_a_single_failure_is_retried(coolify, control):
    create(coolify)
    control.answer_with(502, times=1)
    assert len(coolify.applications()) == 1


def test_an_html_page_is_never_an_empty_list(coolify, control):
    control.answer_html(path="/applications$")
    with pytest.raises((MalformedAnswer, Unavailable)):
        coolify.applications()


def test_an_object_is_never_an_empty_list(coolify, control, conversation):
    control.answer_with(200, path="/applications$", body={"message": "Sorry."})
    with pytest.raises(MalformedAnswer):
        coolify.applications()
    conversation.clear()  # this answer breaks the contract on purpose


def test_a_reset_connection(coolify, control):
    control.reset_before(method="POST")
    with pytest.raises(Unreachable):
        create(coolify)
    assert control.state()["applications"] == []


def test_a_slow_coolify_times_out(simulator, control):
    control.slow_down(30.0)
    began = time.monotonic()
    with pytest.raises(Unreachable):
        Coolify(simulator.api_url, DEFAULT_TOKEN, timeout=0.3).applications()
    assert time.monotonic() - began < 25
    control.clear_faults()


def test_the_correlation_id_arrives(coolify, control):
    with correlated("bot-123"):
        coolify.version()
    assert control.requests()["recent"][0]["correlationId"] == "bot-123"


# The published document


@pytest.fixture
def published():
    if not PUBLISHED.exists():
        pytest.skip(f"Coolify's OpenAPI document is not available ({PUBLISHED.name})")
    return PublishedCoolify.load()


def request(method, path, **more):
    return Request(method, f"/api/v1{path}", **more)


@pytest.mark.parametrize(
    ("asked", "answer", "complaint"),
    [
        (request("GET", "/applications"), Answer(200, {}), "is not of type 'array'"),
        (request("GET", "/applications"), Answer(200, [{"id": "x"}]), "is not of type 'integer'"),
        (request("GET", "/applications"), Answer(201, []), "201 is not described"),
        (request("GET", "/secrets"), Answer(200, []), "is not described"),
        (request("GET", "/deployments", query={"page": "1"}), Answer(200, []), "page is unknown"),
        (
            request("POST", "/applications/x/start", query={"force": "maybe"}),
            Answer(200, {}),
            "is not of type boolean",
        ),
        (
            request("PATCH", "/applications/x", body=b'{"server_uuid": "y"}'),
            Answer(200, {"uuid": "x"}),
            "server_uuid",
        ),
        (
            request("POST", "/applications/dockerimage", body=b'{"name": "y"}'),
            Answer(201, {"uuid": "x"}),
            "is a required property",
        ),
    ],
)
def test_the_published_document_finds_errors(published, asked, answer, complaint):
    assert complaint in " ".join(published.complaints(asked, answer))


def test_the_published_document_allows_a_null_description(published):
    answer = Answer(200, {"description": None, "build_pack": "dockerimage"})
    assert published.complaints(request("GET", "/applications/x"), answer) == []


def test_the_simulator_is_fast():
    """It answers hundreds of requests a second: tests never have to wait for it."""
    with simulated_coolify() as simulator:
        client = with_token(simulator, DEFAULT_TOKEN)

        def seconds_for_twenty():
            began = time.monotonic()
            for _ in range(20):
                client.version()
            return time.monotonic() - began

        # The best of ten runs: the others include whatever else the machine is doing.
        assert min(seconds_for_twenty() for _ in range(10)) < 1
