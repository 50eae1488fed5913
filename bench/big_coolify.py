"""A simulated Coolify with thousands of applications, in a process of its own."""

import multiprocessing
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection

from coolify.client import bodies
from coolify.client.image import Image
from coolify.simulator.control_client import SimulatorControl
from coolify.simulator.settings import DEFAULT_ENVIRONMENT, DEFAULT_PROJECT, Settings
from coolify.simulator.simulator import Simulator
from coolify.simulator.world.applications import Applications

IMAGE = "registry.example/meeting-bot-{platform}:1.0"
DESCRIPTION = "[IDLE] Available"


@dataclass(frozen=True)
class Place:
    """An application that a slot is to have."""

    name: str
    platform: str
    server: str
    uuid: str = ""


@dataclass(frozen=True)
class BigCoolify:
    url: str
    api_url: str
    places: list[Place]
    pid: int


@contextmanager
def big_coolify(places: list[Place], *, speed: float) -> Iterator[BigCoolify]:
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(
        target=_serve, args=(places, speed, theirs), daemon=True
    )
    process.start()
    url, api_url, made = ours.recv()
    try:
        yield BigCoolify(url=url, api_url=api_url, places=made, pid=process.pid or 0)
    finally:
        ours.send("stop")
        process.join()


def _serve(places: list[Place], speed: float, parent: Connection) -> None:
    servers = list(dict.fromkeys(place.server for place in places))
    settings = Settings(
        speed=speed,
        servers=servers,
        rate_limit=None,
        job_workers=64,
        bot_threads=32,
        shortest_heartbeat=5.0,
    )
    with Simulator(settings) as simulator:
        made = [_make(simulator, place) for place in places]
        control = SimulatorControl(simulator.url)
        for server in servers:
            for platform in {place.platform for place in places}:
                control.warm_image(IMAGE.format(platform=platform), server=server)
        parent.send((simulator.url, simulator.api_url, made))
        parent.recv()


def _make(simulator: Simulator, place: Place) -> Place:
    body = bodies.new_application(
        where={
            "project_uuid": DEFAULT_PROJECT,
            "server_uuid": place.server,
            "environment_name": DEFAULT_ENVIRONMENT,
        },
        what={"name": place.name, "description": DESCRIPTION},
        image=Image.parse(IMAGE.format(platform=place.platform)),
    )
    with simulator.world.lock:
        application = Applications(world=simulator.world).create(body)
    return Place(place.name, place.platform, place.server, application.uuid)
