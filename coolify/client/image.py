"""A container image as Coolify expects it: name and tag are separate fields."""

from __future__ import annotations

from dataclasses import dataclass


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
