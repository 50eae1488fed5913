"""Stops the embedded PostgreSQL once all its users are gone, also those that were killed."""

import os
import subprocess
import sys
from pathlib import Path

from botpool.file_locks import is_free, locked, open_lock, try_lock


def call_janitor(home: Path) -> None:
    """Have a process wait for the last user of the server whose locks are in `home`."""
    if is_free(home / "janitor.lock"):
        # The shell ends at once, so that the janitor is nobody's child and outlives us.
        script = '"$@" </dev/null >/dev/null 2>&1 &'
        janitor = [sys.executable, "-m", "botpool.janitor", str(home.parent)]
        subprocess.run(  # noqa: S603 (ourselves)
            ["/bin/sh", "-c", script, "sh", *janitor],
            cwd=Path(__file__).parent.parent,
            start_new_session=True,
            check=False,
        )


def wait_and_stop(data_dir: Path) -> None:
    from botpool.postgres import Server  # which calls us, above

    server = Server(data_dir)
    duty = open_lock(server.home / "janitor.lock")
    if not try_lock(duty):
        return
    with locked(server.home / "users.lock"):
        with locked(server.home / "start.lock"):
            server.stop()
        os.close(duty)  # before the next user may enter, so that it calls a new janitor


if __name__ == "__main__":
    wait_and_stop(Path(sys.argv[1]))
