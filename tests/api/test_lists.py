import json

from django.db import connection

from bots.models import Bot
from bots.status import Platform
from pool.line import move_down
from queues.models import QueueEntry
from tests.api.conftest import MEETING
from tests.factories import BotFactory, SlotFactory


def ids(answer):
    return [bot["id"] for bot in answer.json()["bots"]]


def test_bots_are_listed_newest_first(client_api):
    bots = [BotFactory().pk for _ in range(3)]
    assert ids(client_api.get("bots")) == bots[::-1]


def test_pages_have_no_gaps_and_no_duplicates(client_api):
    bots = [BotFactory().pk for _ in range(5)]
    seen, cursor = [], ""
    while cursor is not None:
        answer = client_api.get(f"bots?limit=2{cursor and f'&cursor={cursor}'}")
        seen += ids(answer)
        cursor = answer.json()["nextCursor"]
        BotFactory()  # new bots do not shift the pages
    assert seen == bots[::-1]


def test_bots_can_be_filtered(client_api):
    zoom = BotFactory(platform=Platform.ZOOM)
    BotFactory()
    ended = BotFactory(platform=Platform.ZOOM)
    client_api.post(f"bots/{ended.pk}/cancel")
    assert ids(client_api.get("bots?platform=zoom")) == [ended.pk, zoom.pk]
    assert ids(client_api.get("bots?status=CANCELLED")) == [ended.pk]
    assert ids(client_api.get("bots?status=PENDING&platform=zoom")) == [zoom.pk]


def test_an_empty_list_is_a_list(client_api):
    assert client_api.get("bots").json() == {"bots": [], "nextCursor": None}


def test_a_queued_bot_shows_its_position_and_estimate(client_api, full_pool):
    first = client_api.post("bots", {"meetingUrl": MEETING}).json()["bot"]["id"]
    second = client_api.post("bots", {"meetingUrl": MEETING, "priority": 1}).json()["bot"]["id"]
    assert client_api.get(f"bots/{second}").json()["queuePosition"] == 1
    assert client_api.get(f"bots/{first}").json()["queuePosition"] == 2
    assert "estimatedWaitMs" in client_api.get(f"bots/{first}").json()


def test_any_other_bot_shows_neither(client_api):
    bot_id = client_api.post("bots", {"meetingUrl": MEETING}).json()["bot"]["id"]
    bot = client_api.get(f"bots/{bot_id}").json()
    assert bot["id"] == bot_id
    assert "queuePosition" not in bot and "estimatedWaitMs" not in bot


def test_events_are_the_whole_history_in_order(client_api, assigned):
    assigned.report("IN_CALL")
    assigned.report("DONE", "All participants left")
    events = client_api.get(f"bots/{assigned.bot.pk}/events").json()["events"]
    assert [(event["fromStatus"], event["toStatus"]) for event in events] == [
        ("PENDING", "DEPLOYING"),
        ("DEPLOYING", "JOINING_CALL"),
        ("JOINING_CALL", "IN_CALL"),
        ("IN_CALL", "DONE"),
    ]
    assert events[-1]["reason"] == "All participants left"
    assert events[-1]["slotName"] == assigned.slot.name


def test_events_have_pages(client_api, assigned):
    path = f"bots/{assigned.bot.pk}/events?limit=1"
    first = client_api.get(path).json()
    second = client_api.get(f"{path}&cursor={first['nextCursor']}").json()
    assert [page["events"][0]["toStatus"] for page in (first, second)] == [
        "DEPLOYING",
        "JOINING_CALL",
    ]
    assert second["nextCursor"] is None


def test_the_pool_counts_its_slots(client_api, assigned, settings):
    SlotFactory()
    SlotFactory(platform=Platform.ZOOM)
    platforms = client_api.get("pool").json()["platforms"]
    assert set(platforms) == set(Platform.values)
    meet = platforms["google-meet"]
    assert (meet["slots"]["busy"], meet["slots"]["idle"], meet["total"]) == (1, 1, 2)
    assert meet["maxSize"] == settings.MAX_POOL_SIZES["google-meet"]


def test_slots_show_their_bot(client_api, assigned):
    SlotFactory(platform=Platform.ZOOM)
    slots = client_api.get("slots").json()["slots"]
    assert [(slot["platform"], slot["status"], slot["botId"]) for slot in slots] == [
        ("google-meet", "busy", assigned.bot.pk),
        ("zoom", "idle", None),
    ]
    assert len(client_api.get("slots?status=idle").json()["slots"]) == 1
    assert len(client_api.get("slots?platform=teams").json()["slots"]) == 0


def test_waiting_bots_are_listed_in_order(client_api, full_pool):
    late = client_api.post("bots", {"meetingUrl": MEETING, "priority": 900}).json()["bot"]["id"]
    soon = client_api.post("bots", {"meetingUrl": MEETING}).json()["bot"]["id"]
    queue = client_api.get("queue").json()
    assert [(w["botId"], w["queuePosition"]) for w in queue["waiters"]] == [(soon, 1), (late, 2)]
    assert queue["total"] == 2
    assert all(w["timeoutAt"] > w["queuedAt"] for w in queue["waiters"])
    assert len(client_api.get("queue?limit=1").json()["waiters"]) == 1
    assert client_api.get("queue?platform=zoom").json() == {"waiters": [], "total": 0}


def test_moving_a_waiting_bot_does_not_change_its_queue_time(client_api, full_pool):
    first = client_api.post("bots", {"meetingUrl": MEETING}).json()["bot"]
    client_api.post("bots", {"meetingUrl": MEETING, "priority": 900})
    assert move_down(Bot.objects.get(pk=first["id"]), reason="Not so urgent", actor="test")
    (_, waiter) = client_api.get("queue").json()["waiters"]
    assert waiter["botId"] == first["id"]
    assert waiter["queuedAt"] == first["queuedAt"]


def test_the_number_of_queries_does_not_grow_with_the_queue(
    client_api, full_pool, django_assert_max_num_queries
):
    for _ in range(10):
        client_api.post("bots", {"meetingUrl": MEETING})
    assert QueueEntry.objects.count() == 10
    with django_assert_max_num_queries(20):
        assert client_api.get("queue").json()["total"] == 10


def test_an_operator_can_force_the_release_of_a_slot(operator_api, assigned):
    answer = operator_api.post(f"slots/{assigned.slot.name}/release", {"reason": "It hangs"})
    assert (answer.status_code, answer.json()["status"]) == (200, "stopping")
    assigned.bot.refresh_from_db()
    assert assigned.bot.failure_reason == "Released by operator: It hangs"
    assert assigned.bot.failure_kind == "infrastructure"
    assert assigned.bot.events.latest("id").actor == "key:ops"


def test_a_release_meant_for_one_bot_does_not_hit_the_next(operator_api, assigned):
    path, body = f"slots/{assigned.slot.name}/release", {"reason": "It hangs"}
    answer = operator_api.post(path, {**body, "botId": assigned.bot.pk + 1})
    assert answer.status_code == 409
    assert answer.json()["detail"] == (
        f"The slot does not hold bot {assigned.bot.pk + 1}. Nothing was released."
    )
    assert operator_api.post(path, {**body, "botId": assigned.bot.pk}).status_code == 200


def test_a_slot_without_a_bot_cannot_be_released(operator_api, slot):
    answer = operator_api.post(f"slots/{slot.name}/release", {"reason": "It hangs"})
    assert answer.status_code == 409


def test_an_unknown_slot_cannot_be_released(operator_api):
    assert operator_api.post("slots/none/release", {"reason": "It hangs"}).status_code == 404


def test_a_release_needs_a_reason(operator_api, assigned):
    answer = operator_api.post(f"slots/{assigned.slot.name}/release", {"reason": ""})
    assert set(answer.json()["errors"]) == {"reason"}


# --- Many bots --------------------------------------------------------------------------------

MANY = """
INSERT INTO bots_bot (
    correlation_id, platform, meeting_url, display_name, config, priority, queue_timeout, status,
    previous_status, failure_reason, failure_kind, placements, slot_name, coolify_service_uuid,
    ended_at
)
SELECT 'c', CASE WHEN n % 1000 = 0 THEN 'zoom' ELSE 'teams' END, 'u', 'd', '{}', 100,
    interval '5 min', 'DONE', 'IN_CALL', '', '', 1, '', '', now()
FROM generate_series(1, 20000) AS n
"""


def nodes(plan):
    yield plan
    for inner in plan.get("Plans", []):
        yield from nodes(inner)


QUERIES = ["", "status=DONE", "status=QUEUED", "platform=zoom", "status=DONE&platform=zoom"]


def test_a_list_reads_an_index_and_only_the_rows_it_shows(client_api, django_assert_num_queries):
    with connection.cursor() as cursor:
        cursor.execute(MANY)
        cursor.execute("ANALYZE bots_bot")
    assert Bot.objects.count() == 20_000
    for query in QUERIES:
        with django_assert_num_queries(2) as calls:
            client_api.get(f"bots?limit=10&{query}")
        assert_it_read_only_what_it_shows(calls)


def assert_it_read_only_what_it_shows(calls):
    listing = next(c["sql"] for c in calls.captured_queries if "LIMIT" in c["sql"])
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {listing}")
        (plan,) = cursor.fetchone()[0]
    (scan,) = [node for node in nodes(plan["Plan"]) if "Scan" in node["Node Type"]]
    assert scan["Node Type"] == "Index Scan", json.dumps(plan)
    assert scan["Actual Rows"] <= 11
    assert scan.get("Rows Removed by Filter", 0) == 0
