import time

import pytest

from coolify.bot_data import encode_bot_data
from coolify.simulator.bots.bot import decoded
from coolify.simulator.bots.plans import make_plan
from coolify.simulator.settings import Settings
from tests.simulated_coolify import NEVER, PlainApi, simulated_coolify, wait_until

ALL_STATUSES = ["JOINING_CALL", "IN_WAITING_ROOM", "IN_CALL", "LEAVING", "DONE"]
FAST = {"shortest_heartbeat": 0.02}
fast = pytest.mark.parametrize("simulator", [FAST], indirect=True)


def launch(api, botpool, *, bot=1, **simulate):
    uuid = api.create(f"slot-{bot}", max_restart_count=0)
    api.set_bot_data(uuid, botpool.data(bot=bot, simulate={"meetingSeconds": 50} | simulate))
    api.run(uuid)
    return uuid


def test_a_bot_reports_every_status(api, botpool):
    launch(api, botpool)
    wait_until(lambda: "DONE" in botpool.statuses())
    assert botpool.statuses()[:5] == ALL_STATUSES
    assert botpool.tokens == {"Bearer token-1"}


def test_a_bot_fetches_its_config_first(api, botpool):
    uuid = launch(api, botpool)
    wait_until(lambda: botpool.statuses())
    method, path, _ = botpool.calls[0]
    assert (method, path) == ("GET", f"/api/v1/slots/{uuid}/bot")


def test_a_bot_uses_the_slot_uuid_from_its_environment(api, botpool):
    uuid = api.create()
    api.set_bot_data(uuid, botpool.data())
    api.post(f"/applications/{uuid}/envs", json={"key": "POOL_SLOT_UUID", "value": "the-slot"})
    api.run(uuid)
    wait_until(lambda: botpool.fetches())
    assert botpool.fetches()[0] == "/api/v1/slots/the-slot/bot"


def test_the_fetched_config_takes_precedence(api, botpool):
    botpool.config = {"simulate": {"plan": "fail", "atSeconds": 1}}
    launch(api, botpool)
    wait_until(lambda: "FAILED" in botpool.statuses())


@fast
def test_a_bot_sends_heartbeats_while_it_runs(api, botpool):
    launch(api, botpool, meetingSeconds=NEVER)
    wait_until(lambda: botpool.heartbeats() > 3)
    assert botpool.statuses() == ALL_STATUSES[:3]


@fast
def test_a_bot_leaves_when_told_to(api, botpool):
    uuid = launch(api, botpool, meetingSeconds=NEVER)
    wait_until(lambda: "IN_CALL" in botpool.statuses())
    botpool.should_leave = True
    wait_until(lambda: "DONE" in botpool.statuses())
    wait_until(lambda: api.running(uuid)[0]["past_lives"])
    assert api.running(uuid)[0]["past_lives"][0]["reason"] == "reported DONE"


def test_a_released_bot_exits_after_every_restart(api, botpool):
    botpool.released = True
    uuid = launch(api, botpool)
    wait_until(lambda: len(botpool.fetches()) > 2)
    assert botpool.statuses() == []
    assert api.running(uuid)[0]["past_lives"][0]["reason"] == "no longer assigned"


def test_a_bot_exits_when_its_slot_belongs_to_a_different_bot(api, botpool):
    botpool.config = {}
    uuid = api.create()
    api.set_bot_data(uuid, botpool.data(bot=1) | {"botId": 1})
    botpool.answer_as = 2
    api.run(uuid)
    wait_until(lambda: api.running(uuid)[0]["past_lives"])
    assert botpool.statuses() == []


def test_a_bot_retries_until_the_api_is_back(api, botpool):
    botpool.status = 503
    uuid = launch(api, botpool)
    wait_until(lambda: len(botpool.fetches()) > 2)
    assert api.running(uuid)[0]["lives"] == 1
    botpool.status = 200
    wait_until(lambda: "DONE" in botpool.statuses())


def test_a_bot_whose_token_is_refused_exits(api, botpool):
    botpool.status = 401
    uuid = launch(api, botpool)
    wait_until(lambda: api.running(uuid)[0]["past_lives"])
    assert api.running(uuid)[0]["past_lives"][0]["reason"] == "refused with 401"


def test_a_refused_status_does_not_stop_a_bot(api, botpool):
    """A restarted bot reports JOINING_CALL again, which Botpool refuses."""
    botpool.status = 409
    launch(api, botpool)
    wait_until(lambda: "DONE" in botpool.statuses())


def test_a_container_exits_without_readable_bot_data(api):
    uuid = api.create()
    api.post(f"/applications/{uuid}/envs", json={"key": "BOT_DATA", "value": "not base64!"})
    api.run(uuid)
    wait_until(lambda: api.running(uuid)[0]["past_lives"])
    assert api.running(uuid)[0]["past_lives"][0]["reason"] == "BOT_DATA missing or unreadable"


def test_a_bot_reads_its_data_as_utf_8():
    data = {"botId": 7, "token": "t", "apiUrl": "http://botpool", "botDisplayName": "Ада 😀"}
    assert decoded(encode_bot_data(data)) == data


# Misbehaviour


def test_a_crashing_bot_reports_nothing_and_restarts(api, botpool):
    uuid = launch(api, botpool, plan="crash", atSeconds=45)
    wait_until(lambda: len(api.running(uuid)[0]["past_lives"]) > 1)
    assert {each["reason"] for each in api.running(uuid)[0]["past_lives"]} == {"crashed"}
    assert not {"DONE", "FAILED"} & set(botpool.statuses())


def test_a_bot_may_crash_only_once(api, botpool):
    launch(api, botpool, plan="crash", atSeconds=45, times=1)
    wait_until(lambda: "DONE" in botpool.statuses())
    assert botpool.statuses().count("JOINING_CALL") >= 2


def test_a_bot_may_exit_early(api, botpool):
    uuid = launch(api, botpool, plan="exit", atSeconds=45)
    wait_until(lambda: api.running(uuid)[0]["past_lives"])
    first = api.running(uuid)[0]["past_lives"][0]
    assert (first["code"], first["reason"]) == (0, "exited early")


def test_a_failing_bot_reports_why(api, botpool):
    launch(api, botpool, plan="fail")
    wait_until(lambda: "FAILED" in botpool.statuses())
    [body] = [body for _, path, body in botpool.calls if body and body.get("status") == "FAILED"][
        :1
    ]
    assert body["reason"] == "The host refused the bot"


@fast
def test_a_silent_bot_stops_calling_but_keeps_running(api, botpool):
    uuid = launch(api, botpool, plan="silent", atSeconds=60)
    wait_until(lambda: api.running(uuid)[0]["heartbeat_due"] is None and botpool.statuses())
    count = len(botpool.calls)
    time.sleep(0.2)
    assert len(botpool.calls) == count
    assert api.running(uuid)[0]["state"] == "running"


@fast
def test_a_hanging_bot_ignores_should_leave(api, botpool):
    launch(api, botpool, plan="hang", atSeconds=60)
    wait_until(lambda: botpool.heartbeats() > 4)
    botpool.should_leave = True
    seen = botpool.heartbeats()
    wait_until(lambda: botpool.heartbeats() > seen + 3)
    assert "DONE" not in botpool.statuses()


def test_a_hanging_bot_is_killed_after_the_grace_period():
    with simulated_coolify(stop_seconds=1, stop_grace_seconds=700) as simulator:
        api = PlainApi(simulator)
        stopped = {}
        for bot, plan in enumerate(("normal", "hang")):
            uuid = api.create(plan)
            data = {"botId": bot, "token": "t", "apiUrl": "http://127.0.0.1:9"}
            api.set_bot_data(uuid, data | {"config": {"simulate": {"plan": plan}}})
            api.run(uuid)
            began = time.time()
            api.stop(uuid)
            wait_until(lambda uuid=uuid: not api.running(uuid))
            stopped[plan] = time.time() - began
        api.close()
    assert stopped["hang"] >= 0.7


# The plan


def test_the_plan_depends_on_seed_and_bot_alone():
    settings = Settings(seed=7, mischief=0.5)
    plans = [make_plan(settings=settings, bot_id=str(n), overrides={}) for n in range(50)]
    again = [make_plan(settings=settings, bot_id=str(n), overrides={}) for n in range(50)]
    assert plans == again
    assert 5 < sum(each["name"] != "normal" for each in plans) < 45
    other = Settings(seed=8, mischief=0.5)
    assert plans != [make_plan(settings=other, bot_id=str(n), overrides={}) for n in range(50)]


def test_without_mischief_every_plan_is_normal():
    plans = [make_plan(settings=Settings(), bot_id=str(n), overrides={}) for n in range(50)]
    assert {each["name"] for each in plans} == {"normal"}


def test_an_external_bot_is_left_to_its_author(api, botpool):
    uuid = launch(api, botpool, plan="external")
    launch(api, botpool, bot=2)
    wait_until(lambda: "DONE" in botpool.statuses())
    assert botpool.tokens == {"Bearer token-2"}
    assert api.running(uuid)[0]["past_lives"] == []


def test_no_bot_is_external_by_chance():
    settings = Settings(mischief=1.0)
    plans = [make_plan(settings=settings, bot_id=str(n), overrides={}) for n in range(50)]
    assert "external" not in {plan["name"] for plan in plans}


def test_overrides_replace_the_plan():
    overrides = {"plan": "crash", "meetingSeconds": 5, "atSeconds": 2, "joinSeconds": "soon"}
    plan = make_plan(settings=Settings(), bot_id="1", overrides=overrides)
    assert (plan["name"], plan["meeting"], plan["trouble_at"]) == ("crash", 5.0, 2.0)
    assert plan["join"] == Settings().join_seconds


@pytest.mark.slow
def test_300_containers_are_cheap(botpool):
    with simulated_coolify(shortest_heartbeat=2.0, servers=["one"]) as simulator:
        api = PlainApi(simulator)
        api.control.warm_image("registry.example/bot:1", server="one")
        api.control.change_server(concurrent_builds=300, deployment_queue_limit=500)
        api.control.change(job_workers=300)
        for bot in range(300):
            uuid = api.create(f"slot-{bot}", server_uuid="one")
            api.set_bot_data(uuid, botpool.data(bot=bot, simulate={"meetingSeconds": NEVER}))
            api.start(uuid)
        wait_until(lambda: botpool.statuses().count("IN_CALL") == 300, seconds=120)
        seen = botpool.heartbeats()
        wait_until(lambda: botpool.heartbeats() > seen + 300, seconds=60)
        api.close()
