"""A container image as Coolify expects it: name and tag are separate fields."""

from __future__ import annotations

import re
from dataclasses import dataclass

# As Coolify checks them; a digest is given as the tag sha256-….
_IMAGE = re.compile(r"([a-z0-9.-]+(:\d+)?/)?[a-z0-9][a-z0-9._/-]*:\w[\w.-]{0,127}", re.ASCII)
LONGEST = 300


def is_image(text: str) -> bool:
    """Whether this is a name with a tag that Coolify takes."""
    return len(text) <= LONGEST and bool(_IMAGE.fullmatch(text))


@dataclass(frozen=True)
class Image:
    name: str
    tag: str = "latest"

    @classmethod
    def parse(cls, text: str) -> Image:
        """`ghcr.io:443/team/bot:v2` → name `ghcr.io:443/team/bot`, tag `v2`."""
        if not text or "@" in text or any(c.isspace() for c in text):
            raise ValueError(f"{text!r} is not an image of the form name:tag")
        path, slash, last = text.rpartition("/")
        # A colon before the last slash is the registry's port, not a tag.
        name, colon, tag = last.partition(":")
        if not name or (colon and not tag):
            raise ValueError(f"{text!r} is not an image of the form name:tag")
        return cls(name=f"{path}{slash}{name}", tag=tag or "latest")

    def __str__(self) -> str:
        return f"{self.name}:{self.tag}"
