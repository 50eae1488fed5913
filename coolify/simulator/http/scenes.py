"""The troubles on the simulator's page: each is switched on and off as a whole."""

from dataclasses import asdict, dataclass, field
from typing import Any

from coolify.simulator.messages import not_found
from coolify.simulator.world.agent import Agent
from coolify.simulator.world.faults import Fault, Faults
from coolify.simulator.world.rows import Server
from coolify.simulator.world.world import World


@dataclass(frozen=True)
class Scene:
    """What to switch on: faults, settings and changes of the last server."""

    name: str
    title: str
    sentence: str
    faults: tuple[dict[str, Any], ...] = ()
    settings: dict[str, Any] = field(default_factory=dict)
    reachable: bool = True
    queue_limit: int | None = None


SCENES = (
    Scene(
        "slow-coolify",
        "Slow Coolify",
        "Every call takes one to three seconds. Bots start later, and none may fail.",
        settings={"shortest_call": 1.0, "longest_call": 3.0},
    ),
    Scene(
        "failing-calls",
        "Every second call fails",
        "Half of all calls are answered with 500. Each step is repeated until it succeeds.",
        faults=({"kind": "error", "path": "^/api/", "status": 500, "probability": 0.5},),
    ),
    Scene(
        "coolify-down",
        "Coolify down",
        "Every call is answered with 502. Running meetings go on, and new bots wait.",
        faults=({"kind": "error", "path": "^/api/", "status": 502},),
    ),
    Scene(
        "failing-image",
        "Failing image",
        "No image can be pulled, so every deployment fails. Bots are placed again, then given up.",
        faults=({"kind": "pull_fails"},),
    ),
    Scene(
        "hanging-deployments",
        "Hanging deployments",
        "New deployments stay in progress for ever and hold their build places.",
        faults=({"kind": "stuck_in_progress"},),
    ),
    Scene(
        "queue-full",
        "Queue full",
        "Coolify answers every start with 200 and creates no deployment, as it does when its queue "
        "is full.",
        queue_limit=0,
    ),
    Scene(
        "server-gone",
        "Server gone",
        "The last server is cut off: its statuses freeze and nothing starts or stops there. Its "
        "containers keep running.",
        reachable=False,
    ),
    Scene(
        "stops-refused",
        "Stops refused",
        "Docker refuses every stop. Coolify writes exited all the same, and its next check says "
        "running again.",
        faults=({"kind": "stop_refused"},),
    ),
    Scene(
        "frozen-statuses",
        "Frozen statuses",
        "Coolify's checks write nothing: a container that has ended is still shown as running.",
        faults=({"kind": "statuses_freeze"},),
    ),
    Scene(
        "wrong-team",
        "Token of another team",
        "Coolify shows empty lists and answers 404. No bot may fail because of it.",
        faults=({"kind": "wrong_team"},),
    ),
    Scene(
        "member-role",
        "Token without rights",
        "The token's user was demoted to a member: every call is answered with 403.",
        faults=({"kind": "member_role"},),
    ),
)


class Scenes:
    """Switches scenes on and off. Callers hold the world's lock."""

    def __init__(self, *, world: World, faults: Faults, agent: Agent) -> None:
        self._world = world
        self._faults = faults
        self._agent = agent
        self._fault_ids: dict[str, list[int]] = {}
        self._earlier: dict[str, dict[str, Any]] = {}

    def listing(self) -> list[dict[str, Any]]:
        return [
            {
                "name": each.name,
                "title": each.title,
                "sentence": each.sentence,
                "on": self.is_on(each),
            }
            for each in SCENES
        ]

    def is_on(self, scene: Scene) -> bool:
        present = {each["id"] for each in self._faults.listing()}
        if scene.faults:
            return bool(present & set(self._fault_ids.get(scene.name, ())))
        if scene.settings:
            settings = self._world.settings
            return all(getattr(settings, name) == v for name, v in scene.settings.items())
        if not scene.reachable:
            return not self._last_server().reachable
        limits = [each.deployment_queue_limit for each in self._world.servers.values()]
        return all(limit == scene.queue_limit for limit in limits)

    def switch(self, name: str, *, on: bool) -> None:
        scene = next((each for each in SCENES if each.name == name), None)
        if scene is None:
            raise not_found(f"Choose from {', '.join(each.name for each in SCENES)}.")
        if self.is_on(scene) != on:
            self._begin(scene) if on else self._end(scene)

    def heal(self) -> None:
        """End every scene and every fault, and reconnect every server."""
        for scene in SCENES:
            if self.is_on(scene):
                self._end(scene)
        self._faults.remove()
        for server in self._world.servers.values():
            server.usable = True
            self._agent.set_reachable(server, reachable=True)

    def _begin(self, scene: Scene) -> None:
        added = [self._faults.add(Fault(**each)) for each in scene.faults]
        self._fault_ids[scene.name] = [each.id for each in added]
        settings = asdict(self._world.settings)
        self._earlier[scene.name] = {name: settings[name] for name in scene.settings}
        self._world.settings.change(scene.settings)
        if not scene.reachable:
            self._agent.set_reachable(self._last_server(), reachable=False)
        if scene.queue_limit is not None:
            self._limit_queues(scene.queue_limit)

    def _end(self, scene: Scene) -> None:
        for fault_id in self._fault_ids.pop(scene.name, ()):
            self._faults.remove(fault_id)
        self._world.settings.change(self._earlier.pop(scene.name, {}))
        if not scene.reachable:
            self._agent.set_reachable(self._last_server(), reachable=True)
        if scene.queue_limit is not None:
            self._limit_queues(self._world.settings.deployment_queue_limit)

    def _limit_queues(self, limit: int) -> None:
        for server in self._world.servers.values():
            server.deployment_queue_limit = limit
        self._world.touch()

    def _last_server(self) -> Server:
        return list(self._world.servers.values())[-1]
