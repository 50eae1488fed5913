"""The name under which the history shows what a command did."""

import getpass
import os


def command_actor() -> str:
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # in a container, a user may have a number only
        user = str(os.getuid())
    return f"command:{user}"
