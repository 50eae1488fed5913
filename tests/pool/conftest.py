from collections.abc import Iterator

import pytest

from tests.pool_under_test import PoolUnderTest, point_at
from tests.simulated_coolify import simulated_coolify


@pytest.fixture
def pool(request, settings, live_server) -> Iterator[PoolUnderTest]:
    """`parametrize("pool", [{…}], indirect=True)` gives the simulator's settings."""
    wanted = {"heartbeat_seconds": 200, **getattr(request, "param", {})}
    with simulated_coolify(**wanted) as simulator:
        for name, value in point_at(simulator, public_url=live_server.url).items():
            setattr(settings, name, value)
        under_test = PoolUnderTest(simulator)
        yield under_test
        under_test.control.close()
