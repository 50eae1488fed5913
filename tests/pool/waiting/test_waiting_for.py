from datetime import timedelta
from functools import partial

import pytest
from django.conf import settings as project_settings
from django.utils import timezone

from bots.models import Bot
from bots.status import BotStatus, FailureCause, Platform
from coolify.models import Budget
from pool.drain import drain
from pool.lifecycle import handle_slot_error, mark_slot_running
from pool.steering import pause_platform
from pool.waiting.waiting_for import WaitingCode, waiting_for, waiting_for_each
from pool.waiting.words import length_of, ordinal, time_of
from servers.models import Server
from slots.models import Deployment, Prepull, Watch
from slots.status import ContainerStatus, SlotStatus
from tests.controller import tend_slots
from tests.factories import BotFactory, DeploymentFactory, SlotFactory
from tests.queued import ask, leave, pool_of

pytestmark = pytest.mark.django_db

MEET = Platform.GOOGLE_MEET


def now():
    return timezone.now()


def soon(**ahead):
    """A time to compare with; waits are told to the second."""
    return now() + timedelta(**ahead)


def deployment(status, *, seen=None, **fields):
    """A bot whose deployment has this status; `seen`: fields of its slot."""
    bot = BotFactory(status=BotStatus.DEPLOYING, previous_status=BotStatus.PENDING)
    slot = SlotFactory(status=SlotStatus.DEPLOYING, assigned_bot=bot, **(seen or {}))
    return DeploymentFactory(slot=slot, status=status, **fields)


def finished(seconds, **fields):
    """A start of the past that took so long."""
    asked_at = now() - timedelta(hours=1)
    ended_at = asked_at + timedelta(seconds=seconds)
    DeploymentFactory(status="finished", start_asked_at=asked_at, ended_at=ended_at, **fields)


def budget(**fields):
    Budget.objects.update_or_create(pk=Budget.THE_ONE, defaults=fields)


def spent(calls):
    budget(ring=[calls], ring_second=int(now().timestamp()))


# --- A slot -----------------------------------------------------------------------------------


def test_a_queued_bot_waits_for_a_slot(settings):
    pool_of(settings, 1)
    ask(), ask()
    bot = ask()
    told = waiting_for(bot)
    gives_up = time_of(bot.queue_entry.timeout_at)
    assert (told.code, told.position) == (WaitingCode.SLOT, 2)
    wait = length_of(told.expected_at - now())
    assert told.message == (
        f"2nd in the Google Meet queue, a slot in about {wait}; "
        f"the bot gives up before that, at {gives_up}."
    )


def test_a_bot_that_gets_its_slot_in_time_gives_up_later(settings):
    pool_of(settings, 1)
    ask()
    bot = ask()
    leave(Bot.objects.get(slot__isnull=False))
    told = waiting_for(bot)
    assert f"; the bot gives up at {time_of(bot.queue_entry.timeout_at)}." in told.message


def test_a_queued_bot_is_told_that_coolify_is_away(settings):
    pool_of(settings, 0)
    since = now() - timedelta(minutes=3)
    budget(open_since=since, open_until=soon(seconds=30), open_reason="connection refused")
    message = waiting_for(ask()).message
    assert f"queue; Coolify has not answered since {time_of(since)}; the bot gives up at" in message


def test_a_bot_that_is_placed_again_says_so(settings):
    pool_of(settings, 1)
    bot = ask()
    handle_slot_error(
        bot.slot, "The image is gone", cause=FailureCause.DEPLOYMENT_FAILED, actor="test"
    )
    bot.refresh_from_db()
    message = waiting_for(bot).message
    assert message.startswith(
        f"Its start in {bot.slot_name} failed and it is placed again: 1st in the"
    )


def test_without_a_slot_in_service_nothing_is_expected(settings):
    pool_of(settings, 0)
    told = waiting_for(ask())
    assert (told.code, told.position, told.expected_at) == (WaitingCode.SLOT, 1, None)


def test_a_queued_bot_waits_for_the_end_of_a_pause():
    until = soon(hours=1)
    pause_platform(MEET, reason="New image", actor="alice", until=until)
    bot = ask()
    told = waiting_for(bot)
    assert (told.code, told.position) == (WaitingCode.PAUSED, 1)
    assert told.message == (
        f"Google Meet is paused until {time_of(until)}; "
        f"1st in the queue; the bot gives up before that, at {time_of(bot.queue_entry.timeout_at)}."
    )
    assert abs(told.expected_at - until) < timedelta(seconds=5)


def test_a_pause_without_an_end_lasts_until_it_is_resumed():
    pause_platform(MEET, reason="New image", actor="alice")
    told = waiting_for(ask())
    assert told.message.startswith("Google Meet is paused until it is resumed; ")
    assert told.expected_at is None


def test_a_pause_that_is_over_is_no_reason(settings):
    pool_of(settings, 0)
    pause_platform(MEET, reason="New image", actor="alice", until=now() - timedelta(hours=1))
    assert waiting_for(ask()).code == WaitingCode.SLOT


def test_a_bot_that_has_just_left_the_queue_waits_for_no_slot(settings):
    pool_of(settings, 1)
    holder, waiter = ask(), ask()
    stale = Bot.objects.get(pk=waiter.pk)
    leave(holder)
    assert drain(MEET)
    assert waiting_for(stale) is None


def test_a_bot_that_is_not_placed_yet_waits_for_a_slot():
    told = waiting_for(BotFactory())
    assert (told.code, told.position, told.expected_at) == (WaitingCode.SLOT, None, None)


# --- The image --------------------------------------------------------------------------------


def leader(**fields):
    more = {"pulling": True, "leader": True, "start_asked_at": now(), **fields}
    return deployment("in_progress", **more)


def test_a_start_waits_for_a_pull_beforehand():
    Prepull.objects.create(image="bot:1", server_uuid="server-1", pulling=True, deadline=now())
    told = waiting_for(deployment("waiting_for_image").bot)
    assert told.code == WaitingCode.IMAGE
    assert told.message == "1st of 1 to start once bot:1 is pulled on server-1."


def test_a_bot_waits_for_the_pull_of_its_image():
    pull = leader()
    late = deployment("waiting_for_image", turn=soon(seconds=10), deadline=soon(minutes=5))
    first = deployment("waiting_for_image", deadline=soon(minutes=5))
    deployment("waiting_for_image", image="other:1")
    deployment("waiting_for_image", seen={"server_uuid": "server-2"})
    told = waiting_for(late.bot)
    assert (told.code, told.position, told.expected_at) == (WaitingCode.IMAGE, 2, None)
    assert told.message == (
        f"2nd of 2 to start once bot #{pull.bot_id} has pulled bot:1 on server-1; "
        f"the bot gives up at {time_of(late.deadline)}."
    )
    assert waiting_for(first.bot).position == 1


def test_the_end_of_a_pull_is_expected_from_earlier_pulls():
    finished(420, leader=True)
    pull = leader()
    bot = deployment("waiting_for_image").bot
    assert waiting_for(bot).expected_at == pull.start_asked_at + timedelta(minutes=7)
    # One that is overdue has no estimate.
    Deployment.objects.filter(pk=pull.pk).update(start_asked_at=now() - timedelta(minutes=8))
    assert waiting_for(bot).expected_at is None


def test_a_pull_that_has_not_begun_is_not_called_a_pull():
    chosen = deployment("waiting_for_place", pulling=True, leader=True)
    told = waiting_for(deployment("waiting_for_image").bot)
    assert f"bot #{chosen.bot_id} has pulled bot:1 on server-1, which has not begun" in told.message
    assert told.expected_at is None


def test_the_pull_of_a_failed_start_is_being_cancelled():
    DeploymentFactory(status="failed", ended_at=now(), start_asked_at=now(), pulling=True)
    told = waiting_for(deployment("waiting_for_image").bot)
    assert ", whose start has failed and is being cancelled in Coolify" in told.message


def test_a_bot_whose_image_nobody_pulls_is_about_to_start():
    told = waiting_for(deployment("waiting_for_image").bot)
    assert (told.code, told.position) == (WaitingCode.START, None)
    assert told.message == "The bot is about to be started."


def test_a_bot_whose_image_nobody_pulls_waits_for_coolify_while_it_is_away():
    since, again, deadline = now() - timedelta(minutes=3), soon(minutes=1), soon(minutes=4)
    budget(open_since=since, open_until=again, open_reason="502")
    told = waiting_for(deployment("waiting_for_image", deadline=deadline).bot)
    assert told.code == WaitingCode.COOLIFY
    assert told.message == (
        f"Coolify has not answered since {time_of(since)}; it is tried again at "
        f"{time_of(again)}; the bot gives up at {time_of(deadline)}."
    )


# --- A build place ----------------------------------------------------------------------------


def test_a_bot_waits_for_a_build_place_in_order_of_turn_and_id():
    urgent = now() - timedelta(minutes=1)
    Server.objects.create(uuid="server-1", name="frankfurt", concurrent_builds=3, read_at=now())
    turn, until = now(), soon(minutes=5)
    same_turn = [deployment("waiting_for_place", turn=turn, deadline=until) for _ in range(2)]
    deployment("waiting_for_place", turn=urgent, image="other:1")
    deployment("waiting_for_place", seen={"server_uuid": "server-2"})
    told = waiting_for(same_turn[1].bot)
    assert (told.code, told.position) == (WaitingCode.BUILD_PLACE, 3)
    assert told.message == (
        "3rd of 3 for 3 build places on frankfurt, about 30 s; "
        f"the bot gives up at {time_of(until)}."
    )
    assert waiting_for(same_turn[0].bot).position == 2


def test_a_build_place_is_expected_after_the_starts_ahead():
    finished(40)
    deployment("waiting_for_place")
    wait = waiting_for(deployment("waiting_for_place").bot).expected_at - now()
    # The second of two at a time.
    assert timedelta(seconds=35) < wait <= timedelta(seconds=40)


def test_a_start_that_coolify_dropped_is_held_back():
    again = soon(seconds=90)
    told = waiting_for(deployment("waiting_for_place", next_try_at=again).bot)
    assert told.message == f"1st of 1 for 2 build places on server-1, not before {time_of(again)}."
    assert told.expected_at == again


def test_one_build_place_is_singular(settings):
    settings.MAX_CONCURRENT_DEPLOYMENTS = 1
    told = waiting_for(deployment("waiting_for_place", seen={"server_uuid": ""}).bot)
    assert told.message == "1st of 1 for 1 build place, about 30 s."


@pytest.mark.parametrize("status", ["waiting_for_place", "waiting_for_image"])
def test_a_line_does_not_move_while_coolify_is_away(status):
    leader()
    since, until = now() - timedelta(minutes=3), soon(seconds=30)
    budget(open_since=since, open_until=until, open_reason="connection refused")
    told = waiting_for(deployment(status).bot)
    assert (told.code, told.position, told.expected_at) == (WaitingCode.COOLIFY, 1, None)
    assert told.message.startswith(
        f"Coolify has not answered since {time_of(since)}; "
        f"it is tried again at {time_of(until)}; 1st of 1 "
    )


# --- Coolify ----------------------------------------------------------------------------------


@pytest.mark.parametrize("status", ["starting", "in_progress"])
def test_a_bot_waits_for_coolify_while_the_circuit_is_open(status):
    since, until = now() - timedelta(minutes=3), soon(seconds=30)
    budget(open_since=since, open_until=until, open_reason="connection refused")
    told = waiting_for(deployment(status).bot)
    assert (told.code, told.position, told.expected_at) == (WaitingCode.COOLIFY, None, None)
    assert told.message == (
        f"Coolify has not answered since {time_of(since)}; it is tried again at {time_of(until)}."
    )


def test_a_circuit_whose_probe_is_due_is_being_tried():
    budget(open_since=now(), open_until=now(), open_reason="connection refused")
    told = waiting_for(deployment("starting").bot)
    assert told.message.endswith("; it is being tried again.")


def test_a_bot_waits_for_coolify_while_it_cannot_be_observed():
    accepted, failing = now() - timedelta(minutes=2), now() - timedelta(minutes=1)
    Watch.objects.create(looked_at=now(), failing_since=failing, error="401")
    told = waiting_for(deployment("in_progress", status_since=accepted).bot)
    assert told.code == WaitingCode.COOLIFY
    assert told.message == (
        f"Coolify has not answered since {time_of(failing)}; it is being tried again."
    )


def test_an_observation_that_failed_before_the_start_says_nothing():
    an_hour_ago = now() - timedelta(hours=1)
    Watch.objects.create(looked_at=an_hour_ago, failing_since=an_hour_ago, error="401")
    assert waiting_for(deployment("in_progress").bot).code == WaitingCode.DEPLOYMENT
    assert waiting_for(deployment("starting").bot).code == WaitingCode.START


# --- The budget -------------------------------------------------------------------------------


def test_a_bot_waits_for_the_end_of_coolifys_pause():
    until = soon(seconds=40)
    budget(paused_until=until)
    told = waiting_for(deployment("starting").bot)
    assert (told.code, told.expected_at) == (WaitingCode.BUDGET, until)
    assert told.message == f"Coolify accepts no calls until {time_of(until)}."


def test_a_bot_waits_for_the_budget_that_refused_its_start():
    spent(project_settings.COOLIFY_RATE_LIMIT)
    again = soon(seconds=20)
    told = waiting_for(deployment("starting", next_try_at=again).bot)
    assert (told.code, told.expected_at) == (WaitingCode.BUDGET, again)
    assert told.message == (
        f"The calls to Coolify of this minute are spent; next try at {time_of(again)}."
    )


def test_the_share_for_observations_is_not_for_starts():
    spent(project_settings.COOLIFY_RATE_LIMIT * 9 // 10)
    starting = deployment("starting", next_try_at=soon(seconds=20))
    assert waiting_for(starting.bot).code == WaitingCode.BUDGET


# --- The start --------------------------------------------------------------------------------


def test_a_bot_is_being_started():
    told = waiting_for(deployment("starting").bot)
    assert (told.code, told.position, told.expected_at) == (WaitingCode.START, None, None)
    assert told.message == "Coolify is being asked to start the container."


def test_a_start_that_failed_says_when_it_is_tried_again_and_why():
    again = soon(seconds=8)
    starting = deployment("starting", next_try_at=again, reason="start: 502 Bad Gateway", attempt=2)
    told = waiting_for(starting.bot)
    assert (told.code, told.expected_at) == (WaitingCode.START, again)
    assert told.message == f"The start is tried again at {time_of(again)}: start: 502 Bad Gateway"


# --- The deployment ---------------------------------------------------------------------------


def test_a_bot_waits_for_its_deployment():
    finished(40)
    since = now()
    told = waiting_for(deployment("in_progress", building_since=since).bot)
    assert (told.code, told.position) == (WaitingCode.DEPLOYMENT, None)
    assert told.message == (
        f"Coolify has been starting the container since {time_of(since)}, of the usual 40 s."
    )
    assert told.expected_at == since + timedelta(seconds=40)


def test_a_deployment_that_takes_too_long_says_so():
    finished(40)
    since = now() - timedelta(minutes=1)
    told = waiting_for(deployment("in_progress", building_since=since).bot)
    assert told.message.endswith(f"since {time_of(since)}, longer than the usual 40 s.")
    assert told.expected_at is None


def test_a_deployment_that_pulls_takes_as_long_as_pulls_do():
    finished(40)
    finished(420, leader=True)
    pull = leader(building_since=now())
    told = waiting_for(pull.bot)
    assert "pulling the image and starting the container since" in told.message
    assert told.expected_at == pull.building_since + timedelta(minutes=7)


def test_an_accepted_start_that_was_not_observed_yet():
    accepted = now()
    told = waiting_for(deployment("in_progress", status_since=accepted).bot)
    assert told.code == WaitingCode.DEPLOYMENT
    assert told.message == f"Coolify accepted the start at {time_of(accepted)}."


def test_a_deployment_in_coolifys_own_queue():
    accepted = now() - timedelta(seconds=30)
    queued = deployment(
        "in_progress",
        seen={"container_status": ContainerStatus.DEPLOYING, "container_seen_at": now()},
        start_asked_at=accepted,
        status_since=accepted,
    )
    told = waiting_for(queued.bot)
    assert told.code == WaitingCode.DEPLOYMENT
    assert told.message == (
        f"Coolify accepted the start at {time_of(accepted)} and has it in its own queue."
    )


def test_a_deployment_on_a_server_that_coolify_cannot_reach():
    told = waiting_for(deployment("in_progress", seen={"server_unreachable": True}).bot)
    assert told.message == "Coolify cannot reach server-1, where the container is to start."


def test_a_bot_waits_for_its_container_to_be_seen():
    ended = now()
    started = deployment(
        "in_progress",
        building_since=ended - timedelta(seconds=10),
        coolify_status="finished",
        coolify_ended_at=ended,
    )
    told = waiting_for(started.bot)
    assert (told.code, told.position) == (WaitingCode.CONTAINER, None)
    assert told.message == (
        f"Coolify started the container at {time_of(ended)}; it has not been seen running yet "
        f"and the start counts as failed at {time_of(ended + timedelta(minutes=3))}."
    )
    assert told.expected_at == started.building_since + timedelta(seconds=30)


def test_a_container_that_is_seen_down_is_a_failure_being_confirmed():
    ended = now() - timedelta(seconds=10)
    down = {"container_status": ContainerStatus.STOPPED, "container_seen_at": now()}
    bot = deployment(
        "in_progress", seen=down, coolify_status="finished", coolify_ended_at=ended
    ).bot
    told = waiting_for(bot)
    assert told.message == (
        f"Coolify started the container at {time_of(ended)}, but shows it as stopped; "
        f"the start counts as failed at {time_of(ended + timedelta(minutes=3))}."
    )


def test_a_failed_build_is_about_to_be_placed_again():
    ended = now()
    bot = deployment("in_progress", coolify_status="failed", coolify_ended_at=ended).bot
    assert waiting_for(bot).message == (
        f"Coolify's deployment ended as failed at {time_of(ended)}; "
        "the bot is about to be placed again."
    )


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    # Long enough for a busy machine to see each wait.
    "pool",
    [{"speed": 100, "cold_pull_seconds": 200, "start_seconds": 150}],
    indirect=True,
)
def test_bots_move_forward_through_their_waits(pool):
    bots = [pool.request() for _ in range(9)]
    seen = {bot.pk: [] for bot in bots}

    def look():
        unfinished = Bot.objects.filter(pk__in=seen, status=BotStatus.DEPLOYING)
        for bot_id, told in waiting_for_each(unfinished).items():
            seen[bot_id].append((told.code, told.position))

    pool.tend = partial(tend_slots, look=look)
    pool.until(lambda: pool.all_run(bots))
    # One pulls, two build at a time, two more are in Coolify's queue; the others wait their turn.
    codes = {code for told in seen.values() for code, _ in told}
    assert {WaitingCode.IMAGE, WaitingCode.BUILD_PLACE, WaitingCode.DEPLOYMENT} <= codes
    for told in seen.values():
        for line in (WaitingCode.IMAGE, WaitingCode.BUILD_PLACE):
            places = [position for code, position in told if code == line]
            assert places == sorted(places, reverse=True)
    still = waiting_for_each(Bot.objects.filter(pk__in=seen))
    assert {told.code for told in still.values()} <= _IN_THE_MEETING


# --- The meeting ------------------------------------------------------------------------------

_IN_THE_MEETING = {WaitingCode.JOINING, WaitingCode.ADMISSION, WaitingCode.LEAVING}


@pytest.mark.parametrize(
    ("status", "code", "words"),
    [
        ("JOINING_CALL", "joining", "has been joining the call since"),
        ("IN_WAITING_ROOM", "admission", "waiting room since"),
        ("LEAVING", "leaving", "has been leaving the call since"),
    ],
)
def test_a_bot_in_its_meeting_says_what_it_does(status, code, words, django_assert_num_queries):
    before = "DEPLOYING" if status == "JOINING_CALL" else "JOINING_CALL"
    bot = BotFactory(status=status, previous_status=before)
    bot.refresh_from_db()
    with django_assert_num_queries(0):
        told = waiting_for(bot)
    assert told.code == code
    assert f"{words} {time_of(bot.status_since)}" in told.message


# --- Those that do not wait -------------------------------------------------------------------


def test_a_bot_in_its_call_waits_for_nothing(django_assert_num_queries):
    bot = BotFactory(status=BotStatus.IN_CALL, previous_status=BotStatus.JOINING_CALL)
    with django_assert_num_queries(0):
        assert waiting_for(bot) is None


def test_a_bot_that_runs_since_it_was_read_waits_for_nothing():
    bot = ask()
    assert mark_slot_running(bot.slot, reason="The container runs", actor="test")
    assert (bot.status, waiting_for(bot)) == ("DEPLOYING", None)


@pytest.mark.parametrize("status", ["DONE", "CANCELLED"])
def test_a_bot_that_has_ended_waits_for_nothing(status, django_assert_num_queries):
    bot = BotFactory(status=status, previous_status="LEAVING", ended_at=now())
    with django_assert_num_queries(0):
        assert waiting_for(bot) is None


# --- Many at once -----------------------------------------------------------------------------


def test_each_is_told_the_same_as_alone(settings):
    pool_of(settings, 0)
    leader(building_since=now())
    places = [deployment("waiting_for_place").bot for _ in range(3)]
    images = [deployment("waiting_for_image").bot for _ in range(3)]
    bots = [*places, *images, ask(), ask(), ask(Platform.ZOOM), BotFactory()]
    told = waiting_for_each(bots)
    alone = [waiting_for(bot) for bot in bots]
    for bot, one in zip(bots, alone, strict=True):
        assert (told[bot.pk].code, told[bot.pk].position) == (one.code, one.position)
        assert told[bot.pk].message == one.message


def test_many_cost_as_many_queries_as_one(settings, django_assert_num_queries):
    pool_of(settings, 0)
    bots = []
    for _ in range(5):
        bots += [deployment(s).bot for s in ("waiting_for_place", "starting", "in_progress")]
        bots.append(ask())
    # Starts, build places, names, typical starts, budget, observation; and three of the queue.
    with django_assert_num_queries(9):
        assert len(waiting_for_each(bots)) == 20


def test_a_new_start_costs_one_query(django_assert_num_queries):
    bot = ask()
    with django_assert_num_queries(1):
        assert waiting_for(bot).code == WaitingCode.START


def test_ordinals():
    numbers = (1, 2, 3, 4, 11, 12, 13, 21, 22, 101, 111)
    words = "1st 2nd 3rd 4th 11th 12th 13th 21st 22nd 101st 111th"
    assert [ordinal(number) for number in numbers] == words.split()
