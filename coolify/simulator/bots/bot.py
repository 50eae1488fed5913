"""The life of a simulated bot: boot, join, send heartbeats, leave, or misbehave as planned."""

from functools import partial
from typing import Any

from coolify.bot_data import BOT_DATA, decode_bot_data
from coolify.simulator.bots.bot_api import BotApi, Reply
from coolify.simulator.bots.log_lines import STEPS as STEP_LINES
from coolify.simulator.bots.log_lines import TROUBLES, boot_lines, heartbeat_line
from coolify.simulator.bots.plans import EXTERNAL, make_plan
from coolify.simulator.scheduler import Scheduler
from coolify.simulator.world.containers import Containers
from coolify.simulator.world.rows import Container
from coolify.simulator.world.world import World

# What a bot does, in order. FETCH is not a status: the bot asks Botpool for its configuration.
STEPS = ("FETCH", "JOINING_CALL", "IN_WAITING_ROOM", "IN_CALL", "LEAVING", "DONE")
JOINING = STEPS.index("JOINING_CALL")
IN_CALL = STEPS.index("IN_CALL")
LEAVING = STEPS.index("LEAVING")
SHORTEST_RETRY = 0.1
LONGEST_RETRY = 30.0


class Bots:
    """Drives the bot in each running container."""

    def __init__(
        self, *, world: World, scheduler: Scheduler, containers: Containers, api: BotApi
    ) -> None:
        self._world = world
        self._scheduler = scheduler
        self._containers = containers
        self._api = api
        containers.booted = self.boot

    def boot(self, container: Container) -> None:
        data = decoded(container.environment.get(BOT_DATA, ""))
        container.reported = None
        container.told_to_leave = False
        container.step = container.attempts = 0
        container.heartbeat_due = container.trouble_due = None
        container.joined_at = container.in_call_since = None
        container.step_due = self._world.clock.after(self._world.settings.boot_seconds)
        if data is not None:
            container.bot_id = str(data["botId"])
            container.epoch = data.get("epoch")
            container.api_url = data["apiUrl"]
            container.token = data["token"]
            self._make_plan(container, config=data.get("config"))
            if container.plan["name"] == EXTERNAL:
                container.step_due = None  # nothing is due, so it never wakes
        self._containers.write_log(container, *boot_lines(container))
        self._schedule(container)

    def resume(self) -> None:
        """Continue after a restart of the simulator, during which the containers kept running."""
        for container in self._world.containers.values():
            if container.state == "running":
                self._schedule(container)
            else:
                self._containers.await_restart(container)

    def _make_plan(self, container: Container, *, config: Any) -> None:
        overrides = config.get("simulate") if isinstance(config, dict) else None
        container.plan = make_plan(
            settings=self._world.settings,
            bot_id=container.bot_id or "",
            overrides=overrides if isinstance(overrides, dict) else {},
        )

    def _schedule(self, container: Container) -> None:
        moments = (container.step_due, container.heartbeat_due, container.trouble_due)
        due = [moment for moment in moments if moment is not None]
        if due:
            self._scheduler.outbound_at(
                min(due), partial(self._wake, container.id, container.lives)
            )

    def _wake(self, container_id: int, life: int) -> None:
        """Take the action that is due; the world's lock is not held during the API call."""
        with self._world.lock:
            container = self._living(container_id, life=life)
            action = self._due_action(container) if container else None
        if container is None or action is None:
            return
        reply = self._perform(container, action)
        with self._world.lock:
            if self._living(container_id, life=life):
                self._note(container, action, reply)
                self._world.touch()
                if container.state == "running":
                    self._schedule(container)

    def _living(self, container_id: int, *, life: int) -> Container | None:
        container = self._world.containers.get(container_id)
        same = container is not None and container.lives == life and container.state == "running"
        return container if same else None

    def _due_action(self, container: Container) -> str:
        now = self._world.clock.now()
        if container.bot_id is None:
            return "UNREADABLE"
        if container.trouble_due is not None and container.trouble_due <= now:
            return str(container.plan["name"])
        if container.step_due is not None and container.step_due <= now:
            return STEPS[container.step]
        return "HEARTBEAT"

    def _perform(self, container: Container, action: str) -> Reply | None:
        if action == "FETCH":
            return self._api.fetch_config(container)
        if action in STEPS:
            return self._api.report(container, status=action, reason="")
        if action == "HEARTBEAT":
            return self._api.heartbeat(container)
        if action == "fail":
            return self._api.report(container, status="FAILED", reason="The host refused the bot")
        return None

    def _note(self, container: Container, action: str, reply: Reply | None) -> None:
        if reply is None:
            self._misbehave(container, action)
        elif action == "HEARTBEAT":
            self._note_heartbeat(container, reply)
        elif reply.unwanted:
            self._containers.exit(container, code=1, reason=f"refused with {reply.status}")
        elif not reply.arrived:
            self._try_again(container)
        else:
            self._note_step(container, action, reply)

    def _misbehave(self, container: Container, action: str) -> None:
        container.trouble_due = None
        self._containers.write_log(container, *TROUBLES.get(action, "").splitlines())
        if action == "UNREADABLE":
            self._containers.exit(container, code=1, reason="BOT_DATA missing or unreadable")
        elif action == "crash":
            self._containers.exit(container, code=139, reason="crashed")
        elif action == "exit":
            self._containers.exit(container, code=0, reason="exited early")
        elif action == "silent":
            container.step_due = container.heartbeat_due = None
        elif action == "hang":  # never leaves, but keeps sending heartbeats
            container.step_due = None

    def _note_heartbeat(self, container: Container, reply: Reply) -> None:
        self._plan_heartbeat(container)
        self._containers.write_log(container, heartbeat_line(container, status=reply.status))
        if reply.should_leave:
            self._leave(container)

    def _try_again(self, container: Container) -> None:
        container.attempts += 1
        pause = min(2.0**container.attempts, LONGEST_RETRY)
        container.step_due = self._world.clock.after(pause, at_least=SHORTEST_RETRY)
        if container.trouble_due is not None:  # a failing bot retries its report until it arrives
            container.trouble_due = max(container.trouble_due, container.step_due)

    def _note_step(self, container: Container, action: str, reply: Reply) -> None:
        container.attempts = 0
        self._containers.write_log(container, f"{STEP_LINES[action]} ({action}: {reply.status})")
        if action == "FETCH":
            self._note_config(container, reply)
            return
        container.reported = "FAILED" if action == "fail" else action
        self._world.tell(
            "bot reported",
            container=container.id,
            application=container.application_uuid,
            bot=container.bot_id,
            epoch=container.epoch,
            status=container.reported,
        )
        if container.reported in ("DONE", "FAILED"):
            code = 0 if container.reported == "DONE" else 1
            self._containers.exit(container, code=code, reason=f"reported {container.reported}")
            return
        if reply.should_leave and container.step == JOINING:
            container.told_to_leave = True
            self._containers.exit(container, code=0, reason="no longer assigned")
            return
        self._take_next_step(container)
        if reply.should_leave:
            self._leave(container)

    def _note_config(self, container: Container, reply: Reply) -> None:
        nested = reply.body.get("bot")
        answer: dict[str, Any] = nested if isinstance(nested, dict) else reply.body
        if (
            reply.should_leave
            or answer.get("released")
            or is_different_bot(answer, container=container)
        ):
            container.told_to_leave = True
            self._containers.exit(container, code=0, reason="no longer assigned")
            return
        config = answer.get("config", reply.body.get("config"))
        if isinstance(config, dict) and config:
            self._make_plan(container, config=config)
        times = container.plan["times"]
        if container.plan["name"] != "normal" and (times is None or container.lives <= times):
            container.trouble_due = self._world.clock.after(container.plan["trouble_at"])
        self._plan_heartbeat(container)
        self._take_next_step(container)

    def _take_next_step(self, container: Container) -> None:
        plan = container.plan
        pauses = {
            "FETCH": 0.0,
            "JOINING_CALL": plan["join"],
            "IN_WAITING_ROOM": plan["waiting_room"],
            "IN_CALL": plan["meeting"],
            "LEAVING": self._world.settings.leave_seconds,
        }
        if container.step == JOINING:
            container.joined_at = self._world.clock.now()
        if container.step == IN_CALL:
            container.in_call_since = self._world.clock.now()
        container.step_due = self._world.clock.after(pauses[STEPS[container.step]])
        container.step += 1

    def _leave(self, container: Container) -> None:
        container.told_to_leave = True
        if container.plan["name"] == "hang" and container.trouble_due is None:
            return
        if container.step <= LEAVING:
            container.step = LEAVING
            container.step_due = self._world.clock.now()

    def _plan_heartbeat(self, container: Container) -> None:
        container.heartbeat_due = self._world.clock.after(
            container.plan["heartbeat"], at_least=self._world.settings.shortest_heartbeat
        )


def decoded(text: str) -> dict[str, Any] | None:
    try:
        data = decode_bot_data(text)
    except ValueError:
        return None
    return data if {"botId", "token", "apiUrl"} <= set(data) else None


def is_different_bot(answer: dict[str, Any], *, container: Container) -> bool:
    """Whether the slot belongs to the next bot by now."""
    bot_id = answer.get("botId", answer.get("id"))
    return bot_id is not None and str(bot_id) != container.bot_id
