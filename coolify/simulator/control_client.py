"""A client for the simulator's control path."""

from types import TracebackType
from typing import Any

import requests

from coolify.simulator.http.control import CONTROL


class SimulatorControl:
    """Drives a running simulator over HTTP.

    A `path` argument is a regular expression, searched for in the request's path.
    """

    def __init__(self, url: str) -> None:
        self._base = url.rstrip("/") + CONTROL
        self._session = requests.Session()
        self._session.trust_env = False

    def close(self) -> None:
        self._session.close()

    def __enter__(self) -> "SimulatorControl":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _call(self, method: str, name: str, **arguments: Any) -> Any:
        response = self._session.request(method, f"{self._base}/{name}", timeout=10, **arguments)
        if not response.ok:
            raise ValueError(f"The simulator refused {name}: {response.text}")
        return response.json()

    # State and history.

    def state(self) -> dict[str, Any]:
        return dict(self._call("GET", "state"))

    def record(self) -> dict[str, Any]:
        return dict(self._call("GET", "record"))

    def requests(self) -> dict[str, Any]:
        return dict(self._call("GET", "requests"))

    def containers(self) -> list[dict[str, Any]]:
        """Every container that ever ran, in order of start."""
        return list(self.record()["containers"])

    # Scenes, as on the simulator's page.

    def scenes(self) -> dict[str, bool]:
        """Each scene's name, and whether it is on."""
        return {each["name"]: each["on"] for each in self._call("GET", "scenes")}

    def switch_scene(self, name: str, *, on: bool = True) -> None:
        self._call("POST", f"scenes/{name}", params={"on": str(on).lower()})

    def heal(self) -> None:
        """End all scenes and faults, and reconnect all servers."""
        self._act("heal")

    # Faults in requests.

    def add_fault(self, kind: str, **fields: Any) -> int:
        return int(self._call("POST", "faults", json={"kind": kind, **fields})["id"])

    def remove_fault(self, fault_id: int) -> None:
        self._call("DELETE", "faults", params={"id": fault_id})

    def clear_faults(self) -> None:
        self._call("DELETE", "faults")

    def faults(self) -> list[dict[str, Any]]:
        return list(self._call("GET", "faults"))

    def answer_with(self, status: int, **where: Any) -> int:
        return self.add_fault("error", status=status, **where)

    def slow_down(self, seconds: float, **where: Any) -> int:
        return self.add_fault("latency", seconds=seconds, **where)

    def reset_before(self, **where: Any) -> int:
        return self.add_fault("reset_before", **where)

    def lose_answer(self, **where: Any) -> int:
        """The request takes effect, but its answer is lost."""
        return self.add_fault("reset_after", **where)

    def answer_html(self, **where: Any) -> int:
        return self.add_fault("html", **where)

    def shorten_lists(self, keep: int, **where: Any) -> int:
        return self.add_fault("short", keep=keep, **where)

    def empty_lists(self, **where: Any) -> int:
        return self.add_fault("empty", **where)

    # Faults in Coolify and its servers.

    def restart_coolify(self, *, outage_seconds: float = 0.0) -> None:
        self._act("restart-coolify", outage_seconds=outage_seconds)

    def delete_application(self, uuid: str, *, keep_container: bool = False) -> None:
        self._act("delete-application", application=uuid, keep_container=keep_container)

    def crash_container(self, application_uuid: str) -> None:
        self._act("crash-container", application=application_uuid)

    def lose_container(self, application_uuid: str) -> None:
        """Remove its containers behind Coolify's back."""
        self._act("lose-container", application=application_uuid)

    def refuse_stops(self, **where: Any) -> int:
        """Docker refuses to stop: Coolify writes `exited`, and the container keeps running."""
        return self.add_fault("stop_refused", **where)

    def set_status(self, application_uuid: str, status: str) -> None:
        self._act("set-status", application=application_uuid, status=status)

    def report_statuses(self) -> None:
        """Run the agent's next pass now."""
        self._act("agent-pass")

    def set_reachable(
        self, reachable: bool, *, server: str | None = None, noticed: bool = True
    ) -> None:
        """Cut a server off, or reconnect it. Its containers keep running and calling.

        Without `noticed`, Coolify shows it only after the agent's next report.
        """
        self._act("server", server=server, reachable=reachable, noticed=noticed)

    def change_server(self, *, server: str | None = None, **changes: Any) -> None:
        self._act("server", server=server, **changes)

    def add_server(self, uuid: str) -> None:
        self._act("add-server", server=uuid)

    def warm_image(self, image: str, *, server: str | None = None) -> None:
        self._act("warm-image", image=image, server=server)

    def clean_up(self, *, server: str | None = None) -> None:
        """Run the nightly clean-up now, by Coolify's rule, on one server or on all."""
        self._act("clean-up", server=server)

    def prune_images(self, *, server: str | None = None) -> None:
        """Remove every image that no container uses."""
        self._act("prune-images", server=server)

    def change(self, **settings: Any) -> None:
        self._call("PATCH", "settings", json=settings)

    def _act(self, name: str, **arguments: Any) -> None:
        self._call("POST", f"actions/{name}", json=arguments)
