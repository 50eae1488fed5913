"""Servers that empty themselves, against two simulated servers: drained, and removed."""

import pytest

from bots.models import Bot
from bots.moves import Outcome
from bots.status import BotStatus
from coolify.simulator.settings import server_uuids
from pool.controller.servers import look_after_servers
from pool.lifecycle import end_bot
from pool.servers.orders import drain_server
from pool.servers.overview import overview_of
from servers.models import Server
from slots.models import Slot
from tests.pool_under_test import PoolUnderTest

TWO = server_uuids(2)
FIRST, SECOND = TWO
two_servers = pytest.mark.parametrize("pool", [{"servers": TWO}], indirect=True)

pytestmark = pytest.mark.django_db(transaction=True)


def applications_on(pool: PoolUnderTest, server: str) -> int:
    applications = pool.control.state()["applications"]
    return sum(each["server_uuid"] == server for each in applications)


@pytest.mark.parametrize("how", ["drained", "removed"])
@two_servers
def test_a_server_is_empty_when_its_last_meeting_ends(pool: PoolUnderTest, settings, how):
    look_after_servers()
    short = pool.request(meetingSeconds=300)  # of the simulator's time
    long = [pool.request() for _ in range(3)]
    pool.until(lambda: pool.count([short], BotStatus.DONE) and pool.all_run(long))
    assert applications_on(pool, SECOND) > 0

    if how == "drained":
        drain_server(Server.objects.get(uuid=SECOND), reason="New disk", actor="anna")
    else:
        settings.COOLIFY_SERVER_UUIDS = [FIRST]
    look_after_servers()
    on_second = list(Bot.objects.filter(slot__server_uuid=SECOND, slot__status="busy"))
    assert on_second and overview_of(Server.objects.get(uuid=SECOND)).meetings == len(on_second)
    newcomer = pool.request()
    assert newcomer.slot.server_uuid == FIRST
    assert pool.count(on_second, BotStatus.FAILED) == 0
    for bot in on_second:
        end_bot(bot, Outcome(BotStatus.DONE, "The meeting is over", "test"))

    def empty() -> bool:
        look_after_servers()
        return applications_on(pool, SECOND) == 0 and pool.all_run([newcomer])

    pool.until(empty)
    assert not Slot.objects.filter(server_uuid=SECOND).exclude(coolify_uuid="").exists()
    assert not Bot.objects.filter(status=BotStatus.FAILED).exists()
