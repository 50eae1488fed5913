"""Coolify's job queue."""

from collections.abc import Callable
from functools import partial
from typing import Any

from coolify.simulator.scheduler import Scheduler
from coolify.simulator.world.rows import Job
from coolify.simulator.world.world import World

# The next step and the seconds until then (None: never). Without a next step, the job ends.
Following = tuple[str, float | None] | None
Step = Callable[[Job], Following]


class Jobs:
    """Runs deployments, stops, deletions and checks, in order of arrival, on Coolify's few workers.

    The workers belong to Coolify, so all servers share them.
    """

    def __init__(self, *, world: World, scheduler: Scheduler) -> None:
        self._world = world
        self._scheduler = scheduler
        self._steps: dict[tuple[str, str], Step] = {}

    def teach(self, kind: str, **steps: Step) -> None:
        for name, step in steps.items():
            self._steps[kind, name] = step

    def submit(self, *, kind: str, application_uuid: str, **details: Any) -> Job:
        job = Job(id=self._world.next_id(), kind=kind, application_uuid=application_uuid, **details)
        self._world.jobs[job.id] = job
        self._world.touch()
        self._start_waiting()
        return job

    def drop(self, job: Job) -> None:
        self._world.jobs.pop(job.id, None)
        self._world.touch()
        self._start_waiting()

    def of_deployment(self, deployment_uuid: str) -> Job | None:
        matching = (
            each for each in self._world.jobs.values() if each.deployment_uuid == deployment_uuid
        )
        return next(matching, None)

    @property
    def free_workers(self) -> int:
        running = sum(each.running for each in self._world.jobs.values())
        return max(self._world.settings.job_workers - running, 0)

    def is_queued(self, kind: str) -> bool:
        return any(each.kind == kind for each in self._world.jobs.values())

    def resume(self) -> None:
        """Continue after a restart of the simulator: schedule each running job's step again."""
        for job in list(self._world.jobs.values()):
            if job.running:
                self._wait(job)
        self._start_waiting()

    def _start_waiting(self) -> None:
        waiting = [each for each in self._world.jobs.values() if not each.running]
        for job in waiting[: self.free_workers]:
            job.running = True
            job.due_at = self._world.clock.now()
            self._wait(job)

    def _wait(self, job: Job) -> None:
        if job.due_at is None:
            return
        self._scheduler.at(job.due_at, partial(self._advance, job.id, job.step))

    def _advance(self, job_id: int, step: str) -> None:
        with self._world.lock:
            job = self._world.jobs.get(job_id)
            if job is None or job.step != step:
                return
            following = self._steps[job.kind, step](job)
            if following is None:
                self.drop(job)
            elif job.id in self._world.jobs:
                job.step, seconds = following
                job.due_at = None if seconds is None else self._world.clock.after(seconds)
                self._world.touch()
                self._wait(job)
