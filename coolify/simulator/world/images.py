"""Image caches and pulls on the servers."""

from coolify.simulator.world.faults import Faults
from coolify.simulator.world.rows import Application, Deployment, Job, Pull
from coolify.simulator.world.world import World


class Images:
    """Keeps each server's image cache and a record of every pull."""

    def __init__(self, *, world: World, faults: Faults) -> None:
        self._world = world
        self._faults = faults

    def begin_pull(self, *, application: Application, deployment: Deployment) -> Pull:
        server = self._world.servers[deployment.server_uuid]
        cold = deployment.force or application.image not in server.cached_images
        pull = Pull(
            id=self._world.next_id(),
            server_uuid=server.uuid,
            image=application.image,
            application_uuid=application.uuid,
            deployment_uuid=deployment.uuid,
            cold=cold,
            started_at=self._world.clock.now(),
        )
        if cold:
            self._mark_overlaps(pull)
        self._world.pulls[pull.id] = pull
        self._world.tell("pull started", image=pull.image, cold=cold, application=application.uuid)
        return pull

    def _mark_overlaps(self, pull: Pull) -> None:
        """Mark cold pulls of one image that run at the same time: each downloads all of it."""
        for other in self._world.pulls.values():
            same = (other.server_uuid, other.image) == (pull.server_uuid, pull.image)
            if same and other.cold and other.ended_at is None:
                other.overlapped = pull.overlapped = True

    def seconds_for(self, pull: Pull) -> float:
        settings = self._world.settings
        return settings.cold_pull_seconds if pull.cold else settings.warm_pull_seconds

    def end_pull(self, pull: Pull) -> bool:
        """Return whether the pull succeeded. Cached images can fail too: every start pulls."""
        failed = self._faults.strikes(
            "pull_fails",
            image=pull.image,
            server=pull.server_uuid,
            application=pull.application_uuid,
        )
        self._close(pull, outcome="failed" if failed else "done")
        cached = self._world.servers[pull.server_uuid].cached_images
        if not failed and pull.image not in cached:
            cached.append(pull.image)
        return not failed

    def abandon(self, job: Job) -> None:
        pull = self._world.pulls.get(job.pull_id or 0)
        if pull and pull.ended_at is None:
            self._close(pull, outcome="cancelled")

    def _close(self, pull: Pull, *, outcome: str) -> None:
        pull.ended_at = self._world.clock.now()
        pull.outcome = outcome
        self._world.tell("pull ended", image=pull.image, cold=pull.cold, outcome=outcome)

    def prune(self, server_uuid: str) -> None:
        """Remove images that no container uses, as `docker_cleanup` does."""
        server = self._world.servers[server_uuid]
        in_use = {
            each.image
            for each in self._world.containers.values()
            if each.server_uuid == server_uuid
        }
        pruned = [image for image in server.cached_images if image not in in_use]
        server.cached_images = [image for image in server.cached_images if image in in_use]
        self._world.tell("images pruned", server=server_uuid, images=pruned)
