"""Request bodies, with the fields that override Coolify's harmful defaults."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from coolify.client.errors import Refused
from coolify.client.image import Image

KEY_PATTERN = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*")

# Early versions of Coolify refuse these fields. An application works without them.
DISPENSABLE_FIELDS = frozenset(
    {
        "autogenerate_domain",
        "docker_images_to_keep",
        "is_consistent_container_name_enabled",
        "max_restart_count",
        "ports_exposes",
        "stop_grace_period",
    }
)

# What every application of ours needs, whenever it was created.
APPLICATION_SETTINGS: dict[str, Any] = {
    # Otherwise starting a running application runs two containers side by side.
    "is_consistent_container_name_enabled": True,
    # Coolify's nightly clean-up keeps the newest images of a repository, two by default. A stopped
    # application protects none, so platforms that share a repository would lose theirs.
    "docker_images_to_keep": 100,
    # At the limit, 10 by default, Coolify removes the container and prunes its image.
    "max_restart_count": 0,
    # Time to leave the meeting after SIGTERM, in seconds.
    "stop_grace_period": 30,
}


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
        # Required before 4.1.2. No bot listens there.
        "ports_exposes": "3000",
        **APPLICATION_SETTINGS,
    }


def application_changes(
    *, description: str | None, image: Image | None, settings: bool
) -> dict[str, Any]:
    changes: dict[str, Any] = {} if description is None else {"description": description}
    if image is not None:
        changes |= _image_fields(image)
    if settings:
        changes |= APPLICATION_SETTINGS
    if not changes:
        raise ValueError("nothing to update: give a description, an image or settings")
    return changes


def without_unknown_fields(body: Mapping[str, Any], error: Refused) -> dict[str, Any] | None:
    """The body for an early version of Coolify; None if that would not help."""
    unknown = error.unknown_fields
    if not unknown or not unknown <= DISPENSABLE_FIELDS:
        return None
    return {field: value for field, value in body.items() if field not in unknown}


def environment_variable(
    key: str, value: str, *, is_preview: bool = False
) -> dict[str, str | bool]:
    if not KEY_PATTERN.fullmatch(key):
        raise ValueError(f"{key!r} is not a valid name for an environment variable")
    if not isinstance(value, str):
        raise TypeError(f"the value of {key} is a {type(value).__name__}, not text")
    # An omitted value becomes null and an omitted flag false: always send every field.
    return {
        "key": key,
        "value": value,
        "is_preview": is_preview,
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
