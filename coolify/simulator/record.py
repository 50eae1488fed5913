"""The history of containers and images, and checks that tests run on it."""

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
    """The ids of bots that had joined from two containers at the same time."""
    return overlapping(
        (each["bot_id"], life["joinedAt"], life["endedAt"])
        for each in containers
        for life in lives(each)
        if life["joinedAt"] is not None
    )


def bots_in_two_containers(containers: list[dict[str, Any]]) -> list[str]:
    """The ids of bots with two containers at the same time, whether or not they joined."""
    return overlapping(
        (each["bot_id"], each["started_at"], each["ended_at"])
        for each in containers
        if each["bot_id"] is not None
    )


def meetings_cut_short(containers: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Containers removed while their bot was in its call and had not been told to leave."""
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
    """The keys whose (key, begin, end) spans overlap; a span without an end has not ended."""
    found: list[str] = []
    busy_until: dict[str, float] = {}
    for key, begin, end in sorted(spans, key=lambda span: span[1]):
        if begin < busy_until.get(key, begin) and key not in found:
            found.append(key)
        busy_until[key] = max(busy_until.get(key, begin), math.inf if end is None else end)
    return found
