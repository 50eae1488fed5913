"""Environment variables: validation, changes, and what a container sees."""

import re
from typing import Any

from coolify.simulator.clock import timestamp
from coolify.simulator.fields import VARIABLE_FIELDS, field_errors
from coolify.simulator.messages import invalid, not_found, refusal
from coolify.simulator.world.rows import Application, EnvironmentVariable
from coolify.simulator.world.world import World, new_uuid

KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*\Z")
KEPT_FLAGS = ("is_runtime", "is_buildtime")
FLAGS = ("is_literal", "is_multiline", "is_shown_once", "is_runtime", "is_buildtime")


class Variables:
    """Stores environment variables; each has a twin for preview deployments."""

    def __init__(self, *, world: World) -> None:
        self._world = world

    def of(self, application: Application) -> list[EnvironmentVariable]:
        return self._world.variables.setdefault(application.uuid, [])

    def find(
        self, application: Application, *, key: str, is_preview: bool
    ) -> EnvironmentVariable | None:
        matching = (
            each
            for each in self.of(application)
            if each.key == key and each.is_preview == is_preview
        )
        return next(matching, None)

    def create(self, application: Application, data: dict[str, Any]) -> EnvironmentVariable:
        check(data)
        is_preview = bool(data.get("is_preview", False))
        if self.find(application, key=data["key"], is_preview=is_preview):
            raise refusal(
                409, "Environment variable already exists. Use PATCH request to update it."
            )
        return self._insert(application, data, is_preview=is_preview)

    def update(self, application: Application, data: dict[str, Any]) -> EnvironmentVariable:
        check(data)
        is_preview = bool(data.get("is_preview", False))
        variable = self.find(application, key=data["key"], is_preview=is_preview)
        if variable is None:
            raise not_found("Environment variable not found.")
        return self._overwrite(variable, data)

    def upsert_all(
        self, application: Application, items: list[dict[str, Any]]
    ) -> list[EnvironmentVariable]:
        """Not a transaction: the items before a rejected one are saved."""
        return [self._upsert(application, item) for item in items]

    def _upsert(self, application: Application, data: dict[str, Any]) -> EnvironmentVariable:
        check(data, known_only=False)
        is_preview = bool(data.get("is_preview", False))
        variable = self.find(application, key=data["key"], is_preview=is_preview)
        if variable is None:
            return self._insert(application, data, is_preview=is_preview)
        return self._overwrite(variable, data)

    def delete(self, application: Application, *, uuid: str) -> None:
        rows = self.of(application)
        variable = next((each for each in rows if each.uuid == uuid), None)
        if variable is None:
            raise not_found("Environment variable not found.")
        gone = (variable.uuid,) if variable.is_preview else self._twins(rows, key=variable.key)
        rows[:] = [each for each in rows if each.uuid not in gone]
        self._world.touch()

    def _twins(self, rows: list[EnvironmentVariable], *, key: str) -> tuple[str, ...]:
        return tuple(each.uuid for each in rows if each.key == key)

    def _insert(
        self, application: Application, data: dict[str, Any], *, is_preview: bool
    ) -> EnvironmentVariable:
        variable = self._row(application, data, is_preview=is_preview)
        self.of(application).append(variable)
        if not is_preview and self.find(application, key=data["key"], is_preview=True) is None:
            self.of(application).append(self._row(application, data, is_preview=True))
        self._world.touch()
        return variable

    def _row(
        self, application: Application, data: dict[str, Any], *, is_preview: bool
    ) -> EnvironmentVariable:
        now = self._world.clock.now()
        return EnvironmentVariable(
            id=self._world.next_id(),
            uuid=new_uuid(),
            application_uuid=application.uuid,
            key=data["key"],
            value=data.get("value"),
            comment=data.get("comment"),
            is_preview=is_preview,
            is_literal=bool(data.get("is_literal", False)),
            is_multiline=bool(data.get("is_multiline", False)),
            is_shown_once=bool(data.get("is_shown_once", False)),
            is_runtime=bool(data.get("is_runtime", True)),
            is_buildtime=bool(data.get("is_buildtime", True)),
            created_at=now,
            updated_at=now,
        )

    def _overwrite(
        self, variable: EnvironmentVariable, data: dict[str, Any]
    ) -> EnvironmentVariable:
        """As in Coolify, a missing value becomes null, and all but two missing flags false."""
        variable.value = data.get("value")
        variable.comment = data.get("comment", variable.comment)
        for flag in FLAGS:
            kept = getattr(variable, flag) if flag in KEPT_FLAGS else False
            setattr(variable, flag, bool(data.get(flag, kept)))
        variable.updated_at = self._world.clock.now()
        self._world.touch()
        return variable


def check(data: Any, *, known_only: bool = True) -> None:
    """The bulk endpoint accepts unknown fields; the others do not."""
    if not isinstance(data, dict):
        raise invalid(["Each item must be an object."])
    known = {name: value for name, value in data.items() if known_only or name in VARIABLE_FIELDS}
    errors = field_errors(known, allowed=VARIABLE_FIELDS)
    if "key" not in errors and not isinstance(data.get("key"), str):
        errors["key"] = ["The key field is required."]
    elif "key" not in errors and not KEY.match(data["key"]):
        errors["key"] = ["The key field format is invalid."]
    if errors:
        raise invalid(errors)


def as_json(variable: EnvironmentVariable, *, with_value: bool) -> dict[str, Any]:
    shown = {
        "id": variable.id,
        "uuid": variable.uuid,
        "key": variable.key,
        "comment": variable.comment,
        "resourceable_type": "App\\Models\\Application",
        "is_preview": variable.is_preview,
        **{flag: getattr(variable, flag) for flag in FLAGS},
        "is_shared": False,
        "version": "4.0.0",
        "created_at": timestamp(variable.created_at),
        "updated_at": timestamp(variable.updated_at),
    }
    if with_value:
        shown |= {"value": variable.value, "real_value": variable.value}
    return shown


def file_size(environment: dict[str, str]) -> int:
    """The bytes of the `.env` file: each line with its equals sign, quotes and end."""
    return sum(len(f"{key}='{value}'\n".encode()) for key, value in environment.items())


def container_environment(
    variables: list[EnvironmentVariable], *, application: Application
) -> dict[str, str]:
    """The variables as a container sees them, with what Coolify adds and the damage it does."""
    added = {
        "PORT": str(application.options.get("ports_exposes") or "80").partition(",")[0],
        "HOST": "0.0.0.0",  # noqa: S104 - what a container is told, not an address we listen on
        "SOURCE_COMMIT": "HEAD",
        "COOLIFY_RESOURCE_UUID": application.uuid,
        "COOLIFY_CONTAINER_NAME": application.uuid,
    }
    return added | {
        each.key: written_value(each)
        for each in variables
        if not each.is_preview and each.is_runtime and each.value is not None
    }


def written_value(variable: EnvironmentVariable) -> str:
    """Coolify writes JSON-like values unquoted: ` #` cuts them off and `$NAME` is expanded."""
    value = (variable.value or "").strip()
    looks_like_json = value.startswith(("{", "["))
    if looks_like_json:
        value = value.partition(" #")[0]
    if looks_like_json or not variable.is_literal:
        value = re.sub(r"\$\{?[A-Za-z_][A-Za-z0-9_]*\}?", "", value)
    return value
