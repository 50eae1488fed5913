"""Read settings from the environment. A wrong value stops the program with a one-line error."""

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from io import StringIO
from ipaddress import ip_network
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

from dotenv import dotenv_values
from dotenv.parser import parse_stream

T = TypeVar("T")

BASE_DIR = Path(__file__).resolve().parent.parent
FLAGS = {
    **dict.fromkeys(("1", "t", "true", "y", "yes", "on"), True),
    **dict.fromkeys(("0", "f", "false", "n", "no", "off"), False),
}
_from_file: set[str] = set()
_read_so_far: dict[str, None] = {}  # an ordered set


def file_path() -> Path | None:
    """`.env` beside manage.py, or what BOTPOOL_ENV_FILE names; None if that is empty."""
    named = os.environ.get("BOTPOOL_ENV_FILE")
    if named is None:
        return BASE_DIR / ".env"
    return Path(os.path.realpath(os.path.expanduser(named))) if named.strip() else None


def load_file() -> None:
    """Set the variables of the file that are not set: the environment wins."""
    path = file_path()
    # A mistyped name must not start a Botpool with other settings.
    if path and "BOTPOOL_ENV_FILE" in os.environ and not path.is_file():
        raise SystemExit(
            f"botpool: BOTPOOL_ENV_FILE names {path}, which is not a file; leave it empty for none"
        )
    for name, value in (read_file(path) if path else {}).items():
        if name not in os.environ:
            _set(name, value, path)
            _from_file.add(name)


def _set(name: str, value: str, path: Path | None) -> None:
    try:
        os.environ[name] = value
    except (OSError, ValueError):
        raise SystemExit(
            f"botpool: {path} sets {name!r}, which cannot be set; allowed: a name without =, and "
            "name and value without NUL characters"
        ) from None


def read_file(path: Path) -> dict[str, str]:
    """What the file sets. An empty value sets nothing."""
    try:
        text = path.read_text(encoding="utf-8") if path.is_file() else ""
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise SystemExit(f"botpool: {path} cannot be read: {reason}") from None
    _refuse_unreadable_lines(path, text)
    found = dotenv_values(stream=StringIO(text))
    return {name: value for name, value in found.items() if value}


def _refuse_unreadable_lines(path: Path, text: str) -> None:
    """python-dotenv leaves them out, and Botpool would start with the default."""
    for each in parse_stream(StringIO(text)):
        if each.error:
            before = len(each.original.string) - len(each.original.string.lstrip())
            line = each.original.line + each.original.string[:before].count("\n")
            raise SystemExit(
                f"botpool: line {line} of {path} cannot be read; write NAME=value, and close each "
                "quotation mark"
            )


def is_set_by_shell(name: str) -> bool:
    return name in os.environ and name not in _from_file


class WrongValue(SystemExit):
    """Stops the program with one line: the variable, its value and what is allowed."""

    def __init__(self, name: str, allowed: str, *, secret: bool = False) -> None:
        value = "(hidden)" if secret else repr(os.environ.get(name, ""))
        super().__init__(f"botpool: {name} is {value}; allowed: {allowed}")


def _read(
    name: str,
    default: T,
    parse: Callable[[str], T],
    allowed: str,
    valid: Callable[[T], bool] = lambda _: True,
    *,
    secret: bool = False,
) -> T:
    _read_so_far[name] = None
    given = os.environ.get(name)
    with suppress(KeyError, ValueError):
        value = default if given is None else parse(given)
        if valid(value):
            return value
    raise WrongValue(name, allowed, secret=secret)


def number(name: str, default: int, *, low: int, high: int) -> int:
    allowed = f"a whole number from {low} to {high}"
    return _read(name, default, int, allowed, lambda n: low <= n <= high)


def milliseconds(name: str, default: int, *, low: int = 1, high: int = 86_400_000) -> timedelta:
    allowed = f"milliseconds, a whole number from {low} to {high}"
    value = _read(name, default, int, allowed, lambda n: low <= n <= high)
    return timedelta(milliseconds=value)


def days(name: str, default: int) -> timedelta:
    return timedelta(days=number(name, default, low=1, high=3650))


def flag(name: str, default: bool) -> bool:
    return _read(name, default, lambda word: FLAGS[word.lower()], "true or false")


def choice(name: str, default: str, options: Sequence[str]) -> str:
    allowed = " or ".join(options)
    return _read(name, default, str, allowed, lambda value: value in options)


def text(name: str, default: str = "") -> str:
    return _read(name, default, str.strip, "any text")


def secret(name: str, *, valid: Callable[[str], bool], allowed: str) -> str:
    """Return "" if it is not set. The error about a wrong value does not show it."""
    value = text(name)
    if value and not valid(value):
        raise WrongValue(name, allowed, secret=True)
    return value


def words(
    name: str,
    default: Sequence[str] = (),
    *,
    valid: Callable[[str], bool] = bool,
    allowed: str = "one or more, separated by commas",
    secret: bool = False,
) -> list[str]:
    def split(value: str) -> list[str]:
        return [word.strip() for word in value.split(",") if word.strip()]

    def all_valid(found: list[str]) -> bool:
        return all(valid(word) for word in found) and bool(found or not text(name))

    return _read(name, split(",".join(default)), split, allowed, all_valid, secret=secret)


def matching(name: str, default: str, *, valid: Callable[[str], bool], allowed: str) -> str:
    return _read(name, default, str.strip, allowed, valid)


def url(
    name: str,
    default: str = "",
    *,
    schemes: Sequence[str] = ("http", "https"),
    ending: str = "",
    secret: bool = False,
) -> str:
    """`secret`: it may contain a password, so the error about a wrong value does not show it. Its
    query may have options.

    Any other URL is shown in messages and on pages, and is refused with a password.
    """
    allowed = f"a URL without spaces that begins with {' or '.join(f'{s}://' for s in schemes)}"
    if ending:
        allowed += f" and ends with {ending}"
    allowed += ", with no port or a port from 1 to 65535"
    unwanted = "#" if secret else "@?#"
    allowed += ", without "
    allowed += "fragment" if secret else "query and fragment, without user name and password"

    def valid(value: str) -> bool:
        parts = urlsplit(value)
        host = (parts.hostname or "").split()
        is_place = bool(parts.path) if parts.scheme == "unix" else len(host) == 1
        is_open = not any(sign in value for sign in unwanted)
        # `port` raises ValueError if it does not exist. Behind a colon it may be missing.
        has_port = parts.port != 0 and not parts.netloc.endswith(":")
        is_right = parts.scheme in schemes and is_place and has_port and value.endswith(ending)
        return not value or (is_right and is_open)

    def to_address(value: str) -> str:
        return value.strip().rstrip("/")

    hidden = secret or any(sign in text(name, default) for sign in unwanted)
    return _read(name, default, to_address, allowed, valid, secret=hidden)


def is_network(word: str) -> bool:
    with suppress(ValueError):
        return word == "*" or bool(ip_network(word, strict=False))
    return False


def data_dir() -> Path:
    try:
        path = Path(text("BOTPOOL_DATA_DIR") or BASE_DIR / ".botpool").expanduser().resolve()
        if str(path).isprintable():  # UTF-8 without control characters
            return path
    except (OSError, RuntimeError):  # an unknown user, links in a circle
        pass
    allowed = (
        "the path of a directory in printable characters, without links in a circle and ~ of "
        "unknown users"
    )
    raise WrongValue("BOTPOOL_DATA_DIR", allowed)


def refuse_others(prefix: str, names: Sequence[str]) -> None:
    """Refuse unknown names with this prefix: a misspelt setting would silently do nothing."""
    for name in os.environ:
        if name.startswith(prefix) and name not in names:
            raise WrongValue(name, f"only the names {', '.join(names)}")


def names_read() -> list[str]:
    """Return the name of every variable read so far."""
    return list(_read_so_far)
