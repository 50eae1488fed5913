"""Stops the embedded PostgreSQL once its last user is gone, even if that user was killed.

python -m botpool.runtime.postgres.watchdog DATA_DIR
"""

import os
import sys
from pathlib import Path

from botpool.runtime.postgres.file_locks import locked, open_lock, try_lock
from botpool.runtime.postgres.server import Server


def wait_and_stop(data_dir: Path) -> None:
    server = Server(data_dir)
    own_lock = open_lock(server.home / "watchdog.lock")
    if not try_lock(own_lock):
        return
    with locked(server.home / "users.lock"):
        with locked(server.home / "start.lock"):
            server.stop()
        os.close(own_lock)  # before the next user enters, which then starts a new watchdog


if __name__ == "__main__":
    wait_and_stop(Path(sys.argv[1]))
