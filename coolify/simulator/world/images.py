"""Image caches and pulls on the servers."""

from coolify.simulator.world.faults import Faults
from coolify.simulator.world.rows import Application, Deployment, Job, Pull, Server
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
        if not failed:
            self.keep(self._world.servers[pull.server_uuid], pull.image)
        return not failed

    def keep(self, server: Server, image: str) -> None:
        if image not in server.cached_images:
            server.cached_images.append(image)
            server.pulled_at[image] = self._world.clock.now()

    def abandon(self, job: Job) -> None:
        pull = self._world.pulls.get(job.pull_id or 0)
        if pull and pull.ended_at is None:
            self._close(pull, outcome="cancelled")

    def _close(self, pull: Pull, *, outcome: str) -> None:
        pull.ended_at = self._world.clock.now()
        pull.outcome = outcome
        self._world.tell("pull ended", image=pull.image, cold=pull.cold, outcome=outcome)

    def prune(self, server_uuid: str) -> None:
        """Remove every image that no container uses, as `docker image prune --all` does."""
        server = self._world.servers[server_uuid]
        self._remove(server, set(server.cached_images) - self._in_use(server))

    def clean_up(self, server_uuid: str) -> None:
        """Remove images by Coolify's rule, as every night and with `docker_cleanup`.

        An image stays if a container uses it, or if every application whose repository is a prefix
        of the image's keeps it. Each of them keeps its newest ones, besides the one it runs.
        """
        server = self._world.servers[server_uuid]
        retention = not server.docker_cleanup["disable_application_image_retention"]
        idle = set(server.cached_images) - self._in_use(server)
        self._remove(
            server, {each for each in idle if not retention or not self._is_kept(each, server)}
        )

    def _is_kept(self, image: str, server: Server) -> bool:
        concerned = [
            each
            for each in self._world.applications.values()
            if each.server_uuid == server.uuid and image.startswith(each.image_name or " ")
        ]
        return bool(concerned) and all(image in self._kept_by(each, server) for each in concerned)

    def _kept_by(self, application: Application, server: Server) -> set[str]:
        running = {each.image for each in self._world.containers_of(application.uuid)}
        matching = [
            each
            for each in server.cached_images
            if each.startswith(application.image_name or " ") and each not in running
        ]
        newest_first = matching[::-1]
        return running | set(newest_first[: application.images_to_keep])

    def tags(self, application: Application) -> list[tuple[str, float]]:
        """The application's images on its server, newest first: each tag and its time."""
        server = self._world.server_of(application)
        found = [
            (image.removeprefix(f"{application.image_name}:"), server.pulled_at.get(image, 0.0))
            for image in server.cached_images
            if image.startswith(f"{application.image_name}:")
        ]
        return found[::-1]

    def _in_use(self, server: Server) -> set[str]:
        containers = self._world.containers.values()
        return {each.image for each in containers if each.server_uuid == server.uuid}

    def _remove(self, server: Server, images: set[str]) -> None:
        removed = [image for image in server.cached_images if image in images]
        server.cached_images = [each for each in server.cached_images if each not in images]
        self._world.tell("images pruned", server=server.uuid, images=removed)
