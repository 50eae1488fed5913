from collections.abc import Iterator

import pytest

from coolify.client import Coolify
from coolify.simulator.simulator import Simulator
from tests.scripted_coolify import ScriptedCoolify
from tests.simulated_coolify import BotCalls, PlainApi, listening_botpool, simulated_coolify


@pytest.fixture
def scripted() -> Iterator[ScriptedCoolify]:
    """A server whose answers the test sets."""
    with ScriptedCoolify().running() as server:
        yield server


@pytest.fixture
def client(scripted: ScriptedCoolify) -> Coolify:
    return Coolify(scripted.url, "7|the-secret-token", timeout=10)


@pytest.fixture
def simulator(request: pytest.FixtureRequest) -> Iterator[Simulator]:
    """A simulated Coolify; `parametrize("simulator", [{…}], indirect=True)` gives its settings."""
    with simulated_coolify(**getattr(request, "param", {})) as running:
        yield running


@pytest.fixture
def api(simulator: Simulator) -> Iterator[PlainApi]:
    plain = PlainApi(simulator)
    yield plain
    plain.close()


@pytest.fixture
def botpool() -> Iterator[BotCalls]:
    """The server that the simulated bots call."""
    with listening_botpool() as calls:
        yield calls
