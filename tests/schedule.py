"""The order in which pytest-xdist hands out the test files."""

import pytest
from xdist.scheduler import LoadFileScheduling

# They start many processes. One worker runs them one after the other: at the same time they would
# slow each other down, and at the end the other workers would have nothing left to do.
CROWDED = {
    "tests/botpool/runtime/test_up.py",
    "tests/chaos/test_short_run.py",
    "tests/ops/test_hosts.py",
    "tests/ops/test_neighbours.py",
    "tests/ops/test_power_cuts.py",
    "tests/ops/test_quickstart.py",
    "tests/ops/test_two_nodes.py",
}


class CrowdedApart(LoadFileScheduling):
    def _split_scope(self, nodeid: str) -> str:
        file = super()._split_scope(nodeid)
        return "crowded" if file in CROWDED else file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> LoadFileScheduling | None:
    if config.getoption("dist") != "loadfile":
        return None
    config.option.loadscopereorder = False  # by the number of tests, long ones would come last
    return CrowdedApart(config, log)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with slow tests come first."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: (_file(item) not in CROWDED, item.path not in slow))


def _file(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]
