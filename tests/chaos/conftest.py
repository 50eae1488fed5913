import pytest

from tests.chaos.clients import Clients
from tests.chaos.evidence import Evidence
from tests.chaos.havoc import Havoc
from tests.chaos.made_up import bot, container, event, transition, wish


@pytest.fixture
def evidence():
    """Bot 1 is requested, runs in its slot, and is done."""
    clients = Clients(url="", keys={})
    clients.accepted.append(wish(1))
    return Evidence(
        bots={1: bot()},
        events=[event(0.0, "PENDING"), event(1.0, "DEPLOYING"), event(20.0, "DONE")],
        transitions=[transition(1.0, "", "deploying"), transition(20.0, "busy", "stopping")],
        containers=[container()],
        pulls=[],
        coolify_events=[],
        clients=clients,
        havoc=Havoc(fleet=None),
        fences=[1, 2, 4],
        late=[],
    )


@pytest.fixture
def waiter(evidence):
    """Bot 2 was requested before bot 1 and is in the queue until 15 s."""
    evidence.clients.accepted.append(wish(2))
    evidence.bots[2] = bot(2, created_at=-1.0)
    evidence.events += [
        event(-1.0, "QUEUED", number=2),
        event(15.0, "DEPLOYING", number=2),
        event(30.0, "DONE", number=2),
    ]
    return evidence
