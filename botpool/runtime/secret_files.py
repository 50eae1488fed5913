"""Files in the data directory that only their owner can read, such as generated secrets."""

import os
import secrets
from pathlib import Path

SHORTEST = 32


class BadSecretFile(SystemExit):
    """Stops the program with one line."""

    def __init__(self, path: Path, length: int) -> None:
        super().__init__(
            f"botpool: {path} holds {length} characters; a secret has at least {SHORTEST}: "
            "restore it from a backup, or delete it to have a new one generated"
        )


def read_or_make(path: Path) -> str:
    """Return the secret in this file. The first process to ask generates it."""
    try:
        return _read(path)
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
    draft = _write_draft(path, secrets.token_urlsafe(50))
    try:
        os.link(draft, path)  # fails if another process was first; we use its secret
    except FileExistsError:
        pass
    finally:
        draft.unlink()
    _flush_names(path.parent)
    return _read(path)


def _read(path: Path) -> str:
    secret = path.read_text().strip()
    if len(secret) < SHORTEST:
        raise BadSecretFile(path, len(secret))
    return secret


def write_privately(path: Path, text: str) -> None:
    """Replace the file atomically."""
    _write_draft(path, text).replace(path)
    _flush_names(path.parent)


def _write_draft(path: Path, text: str) -> Path:
    """On the disk when this returns: after a power cut, the final name must not show less."""
    draft = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    return draft


def _flush_names(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
