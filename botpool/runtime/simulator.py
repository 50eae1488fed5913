"""The Coolify simulator of `manage.py up`: its process, and its address for other shells.

`up` listens on the port and hands the socket to each process of the simulator. So the address never
leads to another program, not even while the simulator is restarted: calls wait until it runs again.
"""

import json
import secrets
import sys

from django.conf import settings

from botpool.runtime.ports import listen
from botpool.runtime.process import ManagedProcess
from botpool.runtime.secret_files import write_privately
from coolify.simulator.settings import DEFAULT_PROJECT, server_uuids

PREFERRED_PORT = 8780


class SimulatedCoolify:
    def __init__(self, *, speed: float, servers: int) -> None:
        self.speed = speed
        self.servers = servers
        self._listener = listen(host="127.0.0.1", preferred=PREFERRED_PORT)
        self.port: int = self._listener.getsockname()[1]
        self.token = f"1|{secrets.token_urlsafe(24)}"
        self.url = f"http://127.0.0.1:{self.port}/api/v1"
        self.file = settings.DATA_DIR / "simulator.json"

    @property
    def environment(self) -> dict[str, str]:
        """What the other processes need to call it."""
        return {
            "COOLIFY_API_URL": self.url,
            "COOLIFY_API_TOKEN": self.token,
            "COOLIFY_PROJECT_UUID": DEFAULT_PROJECT,
            "COOLIFY_SERVER_UUID": ",".join(server_uuids(self.servers)),
            "COOLIFY_SIMULATED": "true",
        }

    def write_address(self) -> None:
        address = {
            "url": self.url,
            "token": self.token,
            "project": self.environment["COOLIFY_PROJECT_UUID"],
            "servers": self.environment["COOLIFY_SERVER_UUID"],
        }
        write_privately(self.file, json.dumps(address))

    def forget_address(self) -> None:
        self.file.unlink(missing_ok=True)

    def close(self) -> None:
        """Stop listening, so that calls are refused once the simulator's process has ended."""
        self._listener.close()

    def process(self) -> ManagedProcess:
        options = {
            "--host": "127.0.0.1",
            "--listener": str(self._listener.fileno()),
            "--speed": f"{self.speed:g}",
            "--state": str(settings.DATA_DIR / "simulator-state.json"),
            "--token": self.token,
            "--servers": str(self.servers),
        }
        words = [word for option in options.items() for word in option]
        manage = str(settings.BASE_DIR / "manage.py")
        command = [sys.executable, manage, "coolify_simulator", *words]
        return ManagedProcess(
            name="coolify",
            command=command,
            before_stop=self.close,
            pass_fds=(self._listener.fileno(),),
        )
