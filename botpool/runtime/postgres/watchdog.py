"""The process that stops the embedded PostgreSQL once its last user is gone, killed ones included.

python -m botpool.runtime.postgres.watchdog DATA_DIR
"""

import os
import sys
from pathlib import Path

from botpool.runtime.postgres.file_locks import locked, open_lock, try_lock
from botpool.runtime.postgres.server import Server


def wait_and_stop(data_dir: Path) -> None:
    server = Server(data_dir)
    duty = open_lock(server.home / "watchdog.lock")
    if not try_lock(duty):
        return
    with locked(server.home / "users.lock"):
        with locked(server.home / "start.lock"):
            server.stop()
        os.close(duty)  # before the next user may enter, so that it starts a new watchdog


if __name__ == "__main__":
    wait_and_stop(Path(sys.argv[1]))
