"""The choice of a server for a slot. Pure: reads no rows, makes no calls."""

from collections.abc import Iterable
from dataclasses import dataclass

from servers.health import IN_SERVICE, ServerState


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A server as the placement sees it. `most_slots` is None without a limit."""

    uuid: str
    state: ServerState = ServerState.HEALTHY
    image_is_warm: bool = False
    build_places: int = 2
    builds: int = 0  # starts that wait there or are under way
    slots: int = 0
    most_slots: int | None = None

    @property
    def has_room(self) -> bool:
        is_full = self.most_slots is not None and self.slots >= self.most_slots
        return self.state in IN_SERVICE and not is_full

    @property
    def free_build_places(self) -> int:
        return max(0, self.build_places - self.builds)


def choose_server(candidates: Iterable[Candidate]) -> str | None:
    """The server for a new slot; None if none has room.

    Healthy before degraded; one that can build now before one that cannot; one that has the image
    before one that has to pull it; then the one with the most free build places and the fewest
    slots. Of equals, the first.
    """
    with_room = [each for each in candidates if each.has_room]
    return min(with_room, key=_rank).uuid if with_room else None


def _rank(server: Candidate) -> tuple[bool, bool, bool, int, int]:
    return (
        server.state != ServerState.HEALTHY,
        server.free_build_places == 0,
        not server.image_is_warm,
        server.slots if server.image_is_warm else -server.free_build_places,
        server.slots,
    )
