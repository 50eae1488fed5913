"""What happened to containers and images, told so that a test can prove something from it."""

import math
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from coolify.simulator.world.rows import Container
from coolify.simulator.world.world import World

SECRETS = {"environment", "token", "log"}


def record(world: World) -> dict[str, Any]:
    containers = [*world.ended_containers, *world.containers.values()]
    pulls = [asdict(each) for each in world.pulls.values()]
    cold = [each for each in pulls if each["cold"]]
    return {
        "containers": [container_json(each) for each in sorted(containers, key=lambda c: c.id)],
        "pulls": pulls,
        "coldPulls": len(cold),
        "overlappingColdPulls": sum(each["overlapped"] for each in cold),
        "events": list(world.events),
    }


def state(world: World) -> dict[str, Any]:
    return {
        "servers": [asdict(each) for each in world.servers.values()],
        "applications": [asdict(each) for each in world.applications.values()],
        "deployments": [asdict(each) for each in world.deployments.values()],
        "containers": [container_json(each) for each in world.containers.values()],
        "jobs": [
            {"kind": each.kind, "application": each.application_uuid, "running": each.running}
            for each in world.jobs.values()
        ],
    }


def container_json(container: Container) -> dict[str, Any]:
    return {name: value for name, value in vars(container).items() if name not in SECRETS}


def bots_in_two_meetings(containers: list[dict[str, Any]]) -> list[str]:
    """Bots that two containers played at the same time, from joining to the end of that life."""
    return overlapping(
        (each["bot_id"], life["joinedAt"], life["endedAt"])
        for each in containers
        for life in lives(each)
        if life["joinedAt"] is not None
    )


def bots_in_two_containers(containers: list[dict[str, Any]]) -> list[str]:
    """Bots for which two containers were there at the same time, whatever they did."""
    return overlapping(
        (each["bot_id"], each["started_at"], each["ended_at"])
        for each in containers
        if each["bot_id"] is not None
    )


def meetings_cut_short(containers: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Containers taken away while their bot was in its call and had not been told to leave."""
    return [
        each
        for each in containers
        if each["past_lives"]
        and each["past_lives"][-1]["reason"] == each["end_reason"]
        and each["past_lives"][-1]["reported"] == "IN_CALL"
        and not each["past_lives"][-1]["toldToLeave"]
    ]


def lives(container: dict[str, Any]) -> list[dict[str, Any]]:
    present = {"joinedAt": container["joined_at"], "endedAt": None}
    return [*container["past_lives"], *([present] if container["state"] == "running" else [])]


def overlapping(spans: Iterable[tuple[str, float, float | None]]) -> list[str]:
    """Whose spans overlap; one without an end lasts."""
    found: list[str] = []
    busy_until: dict[str, float] = {}
    for who, begin, end in sorted(spans, key=lambda span: span[1]):
        if begin < busy_until.get(who, begin) and who not in found:
            found.append(who)
        busy_until[who] = max(busy_until.get(who, begin), math.inf if end is None else end)
    return found
