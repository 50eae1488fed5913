"""Secrets, and files in the data directory that only their owner can read."""

import json
import logging
import os
import re
import secrets
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

logger = logging.getLogger(__name__)

SHORTEST = 32
FEWEST_DIFFERENT = 5  # characters, as in Django's own check
_MEND = "restore it from a backup, or delete it to have a new one generated"


class BadSecretFile(SystemExit):
    """Stops the program with one line."""

    def __init__(self, path: Path, fault: str, advice: str = _MEND) -> None:
        super().__init__(f"botpool: {path} {fault}: {advice}")


def fault_of(secret: str) -> str:
    """Why this cannot be a secret, without showing it; "" if it can."""
    if len(secret) < SHORTEST:
        return f"holds {len(secret)} characters; a secret has at least {SHORTEST}"
    if not is_one_word(secret):
        return "holds spaces, several lines or control characters; a secret has none"
    if len(set(secret)) < FEWEST_DIFFERENT:
        return f"holds fewer than {FEWEST_DIFFERENT} different characters; a secret is random"
    return ""


def is_one_word(text: str) -> bool:
    return text.isprintable() and not re.search(r"\s", text)


# --- Generated secrets -------------------------------------------------------------------------


def read_or_make(path: Path, *, valid: Callable[[str], bool] = bool, allowed: str = "") -> str:
    """Return the secret in this file. The first process to ask generates it.

    `valid` is for a secret with rules of its own, which `allowed` says in words.
    """
    secret = _read(path) or _make(path)
    if not valid(secret):
        raise BadSecretFile(path, f"holds characters that are not allowed in it ({allowed})")
    return secret


def holds(path: Path, secret: str) -> bool:
    """Whether this file has that secret. A file that cannot be read has none."""
    try:
        return path.is_file() and path.read_text().strip() == secret
    except (OSError, ValueError):
        return False


def _read(path: Path) -> str:
    """Return "" if there is no such file yet."""
    if not os.path.lexists(path) and _can_be_made_in(path.parent):
        return ""
    try:
        mode = path.stat().st_mode
        if not stat.S_ISREG(mode):
            raise BadSecretFile(path, "is not a file", "move it away")
        secret = path.read_text().strip()
    except FileNotFoundError:
        raise BadSecretFile(path, "is a link to a file that does not exist") from None
    except OSError as error:
        advice = "make it readable for the user that runs Botpool"
        raise BadSecretFile(path, f"cannot be read ({error.strerror})", advice) from None
    except UnicodeDecodeError:
        raise BadSecretFile(path, "is not text") from None
    if fault := fault_of(secret):
        raise BadSecretFile(path, fault)
    _warn_if_open_to_others(path, mode)
    return secret


def _can_be_made_in(directory: Path) -> bool:
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        advice = "set BOTPOOL_DATA_DIR to a directory"
        raise BadSecretFile(directory, "is not a directory", advice) from None
    except OSError as error:
        advice = "set BOTPOOL_DATA_DIR to a directory that Botpool can write to"
        fault = f"cannot be the data directory ({error.strerror})"
        raise BadSecretFile(directory, fault, advice) from None
    return True


def _warn_if_open_to_others(path: Path, mode: int) -> None:
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        logger.warning(
            "botpool: %s is open to others than its owner (mode %o): run chmod 600 on it, and "
            "delete it to have a new one generated if another user may have read it",
            path,
            stat.S_IMODE(mode),
        )


def _make(path: Path) -> str:
    try:
        draft = _write_draft(path, secrets.token_urlsafe(50))
        try:
            os.link(draft, path)  # fails if another process was first; we use its secret
        except FileExistsError:
            pass
        finally:
            draft.unlink()
        _flush_names(path.parent)
    except OSError as error:
        advice = "set BOTPOOL_DATA_DIR to a directory that Botpool can write to"
        raise BadSecretFile(path, f"cannot be written ({error.strerror})", advice) from None
    return _read(path)


# --- Private files -----------------------------------------------------------------------------


def write_privately(path: Path, text: str) -> None:
    """Replace the file atomically."""
    _write_draft(path, text).replace(path)
    _flush_names(path.parent)


def read_object(path: Path) -> dict[str, Any]:
    """Return the JSON object in this file, an empty one if it is missing or damaged."""
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _write_draft(path: Path, text: str) -> Path:
    """On the disk when this returns: after a power cut, the final name must not show less."""
    draft = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
    except OSError:
        draft.unlink()
        raise
    return draft


def _flush_names(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
