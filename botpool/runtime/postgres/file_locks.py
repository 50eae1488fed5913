"""Locks on files, which go away with the process that holds them, however that ends."""

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


def open_lock(path: Path) -> int:
    """A descriptor to lock; readable by all, so that another account can lock it too."""
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
