"""Files in the data directory that only their owner can read, such as generated secrets."""

import os
import secrets
from pathlib import Path


def read_or_make(path: Path) -> str:
    """Return the secret in this file. The first process to ask generates it."""
    try:
        return path.read_text().strip()
    except FileNotFoundError:
        pass
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(secrets.token_urlsafe(50))
    try:
        os.link(draft, path)  # fails if another process was first; we use its secret
    except FileExistsError:
        pass
    finally:
        draft.unlink()
    return path.read_text().strip()


def write_privately(path: Path, text: str) -> None:
    """Replace the file atomically."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
    draft.replace(path)
