"""Request bodies, with the fields that override Coolify's harmful defaults."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from coolify.client.image import Image

KEY_PATTERN = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*")

# Early versions of Coolify refuse these fields. An application works without them.
DISPENSABLE_FIELDS = frozenset(
    {"autogenerate_domain", "is_consistent_container_name_enabled", "ports_exposes"}
)


def new_application(
    *, where: Mapping[str, str | None], what: Mapping[str, str | None], image: Image
) -> dict[str, Any]:
    """`where` and `what` use Coolify's field names. None and "" are left out."""
    given = {field: value for field, value in {**where, **what}.items() if value}
    return {
        **given,
        **_image_fields(image),
        # Coolify invents a public domain unless told not to.
        "autogenerate_domain": False,
        # Otherwise starting a running application runs two containers side by side.
        "is_consistent_container_name_enabled": True,
    }


def application_changes(*, description: str | None, image: Image | None) -> dict[str, str]:
    changes = {} if description is None else {"description": description}
    if image is not None:
        changes |= _image_fields(image)
    if not changes:
        raise ValueError("nothing to update: give a description or an image")
    return changes


def environment_variable(key: str, value: str) -> dict[str, str | bool]:
    if not KEY_PATTERN.fullmatch(key):
        raise ValueError(f"{key!r} is not a valid name for an environment variable")
    if not isinstance(value, str):
        raise TypeError(f"the value of {key} is a {type(value).__name__}, not text")
    # An omitted value becomes null and an omitted flag false: always send every field.
    return {
        "key": key,
        "value": value,
        "is_preview": False,
        # Otherwise Coolify expands `$`.
        "is_literal": True,
        "is_multiline": False,
        "is_shown_once": False,
        "is_runtime": True,
        "is_buildtime": False,
    }


def _image_fields(image: Image) -> dict[str, str]:
    return {
        "docker_registry_image_name": image.name,
        "docker_registry_image_tag": image.tag,
    }
