"""Processes that end with their parent, even if both parent and reaper were killed.

The kernel does it, on Linux. Elsewhere it is left to the reaper.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1
# Loaded here: a process that has just been forked can take no locks.
_prctl = ctypes.CDLL(None).prctl if sys.platform == "linux" else None

_forking = 0


def end_with(parent: int) -> None:
    """Make the kernel kill this process when the thread of `parent` that started it ends."""
    if _prctl is None:
        return
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it was gone before we asked
        os.kill(os.getpid(), signal.SIGKILL)


def end_forks_with_parent() -> None:
    """Do so for each process that this one forks from now on, and for those that they fork."""
    os.register_at_fork(before=_note_parent, after_in_child=_end_with_noted)


def _note_parent() -> None:
    global _forking
    _forking = os.getpid()


def _end_with_noted() -> None:
    end_with(_forking)
