"""How many starts are sent to a server at once."""

import pytest

from coolify.client.resources import Server
from coolify.server_limits import remember_servers
from pool.controller.start import give_places
from slots.deployment import Deployment
from tests.factories import DeploymentFactory

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def as_coolify_says(settings):
    settings.MAX_CONCURRENT_DEPLOYMENTS = 0


def waiting(count: int, *, server: str = "server-1") -> list[Deployment]:
    return DeploymentFactory.create_batch(
        count, status="waiting_for_place", slot__server_uuid=server
    )


def server(name: str, *, builds: int, queue: int) -> None:
    remember_servers([Server(name, concurrent_builds=builds, deployment_queue_limit=queue)])


def test_as_many_as_it_builds_and_as_many_again_to_keep_it_busy():
    server("server-1", builds=2, queue=25)
    waiting(10)
    assert give_places() == 4


def test_those_ahead_never_fill_coolifys_own_queue():
    server("server-1", builds=60, queue=25)
    waiting(80)
    assert give_places() == 60 + 12


def test_those_who_came_first_go_first():
    first, second, *_ = waiting(5)
    server("server-1", builds=1, queue=25)
    give_places()
    assert list(Deployment.objects.filter(status="starting").order_by("id")) == [first, second]


def test_a_place_is_given_again_only_when_it_is_free():
    server("server-1", builds=1, queue=25)
    waiting(5)
    assert (give_places(), give_places()) == (2, 0)


def test_servers_do_not_take_each_others_places():
    server("server-1", builds=1, queue=25)
    server("server-2", builds=3, queue=25)
    waiting(10, server="server-1")
    waiting(10, server="server-2")
    give_places()
    started = Deployment.objects.filter(status="starting")
    assert started.filter(server_uuid="server-1").count() == 2
    assert started.filter(server_uuid="server-2").count() == 6
