"""The order of the line: fair between clients, by turn within each."""

import random
from datetime import UTC, datetime, timedelta

import pytest

from bots.models import Client
from pool.drain import drain
from pool.sharing.turns import Shares, Waiter, first_in_line, whole_line
from pool.waiting.position import place_in_line, places_in_line
from pool.waiting.reasons import why_waiting
from tests.queued import ask, leave, pool_of, served_in_order, statuses

START = datetime(2026, 11, 16, 9, tzinfo=UTC)


def waiters(lanes):
    """One a second, of these clients."""
    return [
        Waiter(lane=lane, turn=START + timedelta(seconds=n), entry_id=n, bot_id=n)
        for n, lane in enumerate(lanes)
    ]


def order(lanes, **shares):
    return [each.lane for each in Shares(**shares).in_order(waiters(lanes))]


# --- The rule -----------------------------------------------------------------------------------


def test_one_client_alone_goes_by_turn():
    rng = random.Random(7)
    line = sorted(
        (
            Waiter(lane=1, turn=START + timedelta(seconds=rng.randrange(50)), entry_id=n)
            for n in range(300)
        ),
        key=lambda each: (each.turn, each.entry_id),
    )
    for held in (0, 1, 70):
        assert Shares(held={1: held}, share={1: 5}).in_order(line) == line


def test_two_clients_take_turns_whoever_came_first():
    assert order([1, 1, 1, 1, 2, 2]) == [1, 2, 1, 2, 1, 1]


def test_the_client_that_holds_fewer_goes_first():
    assert order([1, 1, 2, 2], held={1: 2}) == [2, 2, 1, 1]


def test_a_client_with_a_larger_share_gets_more():
    got = order([1] * 9 + [2] * 9, share={2: 3})
    assert (got[:8].count(2), got[:8].count(1)) == (6, 2)


def test_a_client_that_holds_nothing_goes_before_the_largest_share():
    assert order([1, 1, 2], held={1: 9}, share={1: 100})[0] == 2


# --- In the database ----------------------------------------------------------------------------


@pytest.fixture
def clients(transactional_db):
    return [Client.objects.create(name=name).pk for name in ("flooding", "modest")]


def test_a_modest_client_is_served_before_the_flood_of_another(settings, clients):
    pool_of(settings, 2)
    flooding, modest = clients
    running = [ask(client_id=flooding) for _ in range(2)]
    flood = [ask(client_id=flooding) for _ in range(6)]
    late = ask(client_id=modest)
    assert place_in_line(late).position == 1
    leave(running[0])
    assert statuses(late, flood[0]) == ["DEPLOYING", "QUEUED"]
    second = ask(client_id=modest)
    # Now both hold one: the flood's first bot has waited longer.
    assert first_in_line("google-meet", 2) == [flood[0].pk, second.pk]


def test_places_and_the_order_of_service_agree(settings, clients):
    pool_of(settings, 3)
    Client.objects.filter(pk=clients[1]).update(share=2)
    third = Client.objects.create(name="third").pk
    running = [ask(client_id=third) for _ in range(3)]
    for number in range(12):
        ask(client_id=clients[number % 4 == 3], priority=100 + number % 3)
    expected = [each.bot_id for each in whole_line("google-meet")]
    places = places_in_line("google-meet")
    assert list(places) == expected
    assert [place.position for place in places.values()] == list(range(1, 13))
    for bot in running:
        leave(bot)
    assert served_in_order()[3:] == expected[:3]


def test_a_newcomer_of_a_client_that_holds_less_takes_the_free_slot(settings, clients, monkeypatch):
    pool_of(settings, 3)
    flooding, modest = clients
    running = [ask(client_id=flooding) for _ in range(3)]
    flood = ask(client_id=flooding)
    with monkeypatch.context() as late:  # the drain has not come yet
        late.setattr("pool.drain.drain", lambda platform: [])
        leave(running[0])
        again = ask(client_id=flooding)
        newcomer = ask(client_id=modest)
    assert statuses(flood, again, newcomer) == ["QUEUED", "QUEUED", "DEPLOYING"]


def test_the_number_of_queries_does_not_grow_with_the_clients(
    settings, clients, django_assert_max_num_queries
):
    pool_of(settings, 0)
    more = [Client.objects.create(name=f"client {n}").pk for n in range(20)]
    waiters = [ask(client_id=each) for each in [*clients, *more] for _ in range(2)]
    with django_assert_max_num_queries(6):
        front = first_in_line("google-meet", 4)
    assert front == [bot.pk for bot in waiters[:8:2]]


def test_one_client_keeps_the_order_of_turns(settings, clients):
    pool_of(settings, 1)
    running = ask(client_id=clients[0])
    waiting = [ask(client_id=clients[0], priority=priority) for priority in (100, 50, 100, 0)]
    in_turn = sorted(waiting, key=lambda bot: (bot.priority, bot.pk))
    assert [each.bot_id for each in whole_line("google-meet")] == [bot.pk for bot in in_turn]
    leave(running)
    assert statuses(in_turn[0]) == ["DEPLOYING"]


def test_without_isolation_all_wait_in_one_line(settings, clients):
    settings.TENANT_ISOLATION = False
    pool_of(settings, 1)
    ask(client_id=clients[0])
    flood = [ask(client_id=clients[0]) for _ in range(3)]
    late = ask(client_id=clients[1])
    assert first_in_line("google-meet", 4) == [*(bot.pk for bot in flood), late.pk]


def test_it_says_why_others_go_first(settings, clients):
    pool_of(settings, 1)
    ask(client_id=clients[0])
    flood = ask(client_id=clients[0])
    assert not any("share" in reason for reason in why_waiting(flood))
    ask(client_id=clients[1])
    assert (
        "Several clients wait. Its client holds 1 slot, with a share of 1; "
        "one that holds fewer for its share goes first."
    ) in why_waiting(flood)
    assert place_in_line(flood).position == 2


def test_bots_of_no_client_are_served(settings, clients):
    pool_of(settings, 1)
    first = ask()
    waiter = ask()
    ask(client_id=clients[0])
    leave(first)
    drain("google-meet")
    assert statuses(waiter) == ["DEPLOYING"]
