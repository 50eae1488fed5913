"""File locks, which are released when the process that holds them ends, however it ends."""

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


def open_lock(path: Path) -> int:
    """Open a file to lock. It is readable by all, because another account may lock it too."""
    return os.open(path, os.O_RDONLY | os.O_CREAT, 0o644)


def try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def share(descriptor: int) -> None:
    fcntl.flock(descriptor, fcntl.LOCK_SH)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    lock = open_lock(path)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def is_free(path: Path) -> bool:
    lock = open_lock(path)
    try:
        return try_lock(lock)
    finally:
        os.close(lock)


def wait_for(happened: Callable[[], bool], *, timeout: float) -> bool:
    deadline = time.monotonic() + timeout
    while not happened():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True
