"""The lines of `.env`: values are added or replaced, all else stays as it is."""

import re
from pathlib import Path

from botpool.runtime.secret_files import write_privately
from core.environment import read_file

# These mean the same with and without quotes to python-dotenv, Docker Compose and systemd.
PLAIN = re.compile(r"[\w.,:/@%+=|-]*", re.ASCII)


class CannotBeWritten(ValueError):
    """The value has a character that programs read in different ways."""


class EnvFile:
    """`example`: whose lines a new file begins with."""

    def __init__(self, path: Path, *, example: Path | None = None) -> None:
        self.path = path.resolve()  # a link stays a link
        begins = self.path if self.path.exists() else example
        self.lines = begins.read_text().splitlines() if begins and begins.exists() else []
        self.values = read_file(self.path)

    def set(self, name: str, value: str) -> None:
        """Replace the line that sets this variable, or the comment that shows how, or add one."""
        line = f"{name}={quoted(value)}"
        if self.values.get(name) == value:
            return
        self.values[name] = value
        sets = re.compile(rf"\s*(export\s+)?{name}\s*=")
        shows = re.compile(rf"#\s?{name}=")
        for pattern in (sets, shows):
            found = [n for n, each in enumerate(self.lines) if pattern.match(each)]
            if found:
                self.lines[found[-1]] = line
                return
        self.lines.append(line)

    def write(self) -> None:
        write_privately(self.path, "".join(f"{line}\n" for line in self.lines))


def quoted(value: str) -> str:
    if PLAIN.fullmatch(value):
        return value
    if re.search(r"['\\\x00-\x1f]", value):
        raise CannotBeWritten("quotes, backslashes and line breaks are not allowed in .env")
    return f"'{value}'"  # within single quotes, no program replaces $NAME
