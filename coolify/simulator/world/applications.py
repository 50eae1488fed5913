"""Applications: validation, creation, changes, and their JSON."""

import json
import re
from datetime import UTC, datetime
from typing import Any

from coolify.simulator.clock import timestamp
from coolify.simulator.fields import CREATE_FIELDS, UPDATE_FIELDS, checked, field_errors
from coolify.simulator.messages import invalid, not_found, refusal
from coolify.simulator.world.rows import Application, Environment, Project, Server
from coolify.simulator.world.world import World, new_uuid

REQUIRED = ("project_uuid", "server_uuid", "docker_registry_image_name")
LONGEST_DESCRIPTION = 255
# `last_online_at` of a new application is when Coolify's database was migrated.
MIGRATED_AT = datetime(2026, 8, 1, tzinfo=UTC).timestamp()
# Every other field is kept in `options` and returned as it was sent.
COLUMNS = {
    "docker_registry_image_name": "image_name",
    "docker_registry_image_tag": "image_tag",
    "name": "name",
    "description": "description",
    "max_restart_count": "max_restart_count",
    "tags": "tags",
    "domains": "fqdn",
}
NULLABLE = {"description", "docker_registry_image_name", "docker_registry_image_tag"}
PLACES = {
    "project_uuid",
    "server_uuid",
    "environment_name",
    "environment_uuid",
    "destination_uuid",
    "instant_deploy",
    "autogenerate_domain",
    "force_domain_override",
}


class Applications:
    def __init__(self, *, world: World) -> None:
        self._world = world

    def listing(self, *, tag: str | None) -> list[Application]:
        rows = [
            each for each in self._world.applications.values() if tag is None or tag in each.tags
        ]
        return sorted(rows, key=lambda each: (each.name, each.id))

    def get(self, uuid: str, *, message: str = "Application not found.") -> Application:
        application = self._world.applications.get(uuid)
        if application is None:
            raise not_found(message)
        return application

    def create(self, data: dict[str, Any]) -> Application:
        self._check_new(data)
        project = self._project(data["project_uuid"])
        environment = self._environment(data, project=project)
        server = self._server(data["server_uuid"])
        check_destination(data, server=server)
        self._check_domains(data, but_for=None)
        data = with_tag_split_off(data)
        now = self._world.clock.now()
        application = Application(
            id=self._world.next_id(),
            uuid=new_uuid(),
            name=f"docker-image-{new_uuid()}",
            environment_id=environment.id,
            server_uuid=server.uuid,
            image_name=data["docker_registry_image_name"],
            image_tag="latest",
            max_restart_count=self._world.settings.max_restart_count,
            last_online_at=MIGRATED_AT,
            created_at=now,
            updated_at=now,
        )
        self._write(application, data)
        if data.get("autogenerate_domain", True) and not application.fqdn:
            application.fqdn = f"http://{application.uuid}.{server.ip}.sslip.io"
        self._world.applications[application.uuid] = application
        self._world.tell("application created", application=application.uuid, name=application.name)
        return application

    def update(self, application: Application, data: dict[str, Any]) -> None:
        checked(data, allowed=UPDATE_FIELDS)
        check_no_tag(data)
        self._check_domains(data, but_for=application)
        self._write(application, data)
        application.updated_at = self._world.clock.now()
        self._world.touch()

    def _write(self, application: Application, data: dict[str, Any]) -> None:
        values = dict(data)
        if "description" in values:
            values["description"] = cleaned_description(values["description"])
        for name, value in values.items():
            if name in COLUMNS and (value is not None or name in NULLABLE):
                kept = int(value) if name == "max_restart_count" else value
                setattr(application, COLUMNS[name], kept)
            elif name not in PLACES and name not in COLUMNS:
                application.options[name] = value

    def _check_new(self, data: dict[str, Any]) -> None:
        errors = field_errors(data, allowed=CREATE_FIELDS)
        required = list(REQUIRED)
        if not self._world.settings.at_least("4.1.2"):
            required.append("ports_exposes")
        for name in required:
            if not data.get(name):
                errors.setdefault(name, [f"The {name.replace('_', ' ')} field is required."])
        if errors:
            raise invalid(errors)
        if not (data.get("environment_name") or data.get("environment_uuid")):
            raise refusal(
                422, "You need to provide at least one of environment_name or environment_uuid."
            )

    def _project(self, uuid: str) -> Project:
        project = self._world.projects.get(uuid)
        if project is None:
            raise not_found("Project not found.")
        return project

    def _server(self, uuid: str) -> Server:
        server = self._world.servers.get(uuid)
        if server is None:
            raise not_found("Server not found.")
        return server

    def _environment(self, data: dict[str, Any], *, project: Project) -> Environment:
        for environment in self._world.environments.values():
            named = data.get("environment_name") == environment.name
            known = data.get("environment_uuid") == environment.uuid
            if environment.project_uuid == project.uuid and (named or known):
                return environment
        raise not_found("Environment not found.")

    def _check_domains(self, data: dict[str, Any], *, but_for: Application | None) -> None:
        wanted = data.get("domains")
        if not wanted or data.get("force_domain_override"):
            return
        taken = [
            each
            for each in self._world.applications.values()
            if each.fqdn == wanted and each is not but_for
        ]
        if taken:
            raise domain_conflict(wanted, taken)


def domain_conflict(domain: str, taken: list[Application]) -> Exception:
    return refusal(
        409,
        "Domain conflicts detected. Use force_domain_override=true to proceed.",
        warning="Using the same domain for multiple resources can cause routing conflicts.",
        conflicts=[
            {
                "domain": domain,
                "resource_name": each.name,
                "resource_uuid": each.uuid,
                "resource_type": "application",
            }
            for each in taken
        ],
    )


def check_destination(data: dict[str, Any], *, server: Server) -> None:
    chosen = data.get("destination_uuid")
    if not server.destinations:
        raise refusal(400, "Server has no destinations.")
    if len(server.destinations) > 1 and not chosen:
        raise refusal(400, "Server has multiple destinations and you do not set destination_uuid.")
    # With a single destination, Coolify does not read the field at all.
    if len(server.destinations) > 1 and chosen not in server.destinations:
        raise invalid(
            {"destination_uuid": "The destination_uuid does not belong to the specified server."}
        )


def with_tag_split_off(data: dict[str, Any]) -> dict[str, Any]:
    """Split `name:tag` and `name@sha256:hash`; a digest is kept as the tag `sha256-hash`."""
    name, _, digest = data["docker_registry_image_name"].partition("@sha256:")
    repository, colon, tag = name.rpartition(":")
    if not colon or "/" in tag:  # the colon of a port
        repository, tag = name, ""
    found = f"sha256-{digest}" if digest else tag
    chosen = data.get("docker_registry_image_tag") or found or "latest"
    return data | {
        "docker_registry_image_name": repository,
        "docker_registry_image_tag": chosen,
    }


def check_no_tag(data: dict[str, Any]) -> None:
    """Reject a tag in the image name. As in Coolify, this error is a string, not a list."""
    name = data.get("docker_registry_image_name")
    if name and ":" in name.rpartition("/")[2]:
        raise invalid(
            {"docker_registry_image_name": "The docker registry image name must not hold a tag."}
        )


def cleaned_description(value: str | None) -> str | None:
    if value is None:
        return None
    cleaned = re.sub(r"<[^>]*>", "", value).strip()
    if len(cleaned) > LONGEST_DESCRIPTION:
        raise refusal(500, "Server Error")  # Coolify does not validate; the column is too short
    return cleaned


def as_json(application: Application, *, server: Server, with_settings: bool) -> dict[str, Any]:
    shown = {
        **DEFAULTS,
        **{name: value for name, value in application.options.items() if value is not None},
        "uuid": application.uuid,
        "name": application.name,
        "description": application.description,
        "fqdn": application.fqdn,
        "status": application.status,
        "docker_registry_image_name": application.image_name,
        "docker_registry_image_tag": application.image_tag,
        "environment_id": application.environment_id,
        "destination_id": server.id,
        "restart_count": application.restart_count,
        "max_restart_count": application.max_restart_count,
        "last_online_at": timestamp(application.last_online_at),
        "created_at": timestamp(application.created_at),
        "updated_at": timestamp(application.updated_at),
        "server_status": server.functional,
        "destination": {
            "uuid": server.destinations[0] if server.destinations else None,
            "network": "coolify",
            "server": {"uuid": server.uuid, "name": server.name, "ip": server.ip},
        },
    }
    if with_settings:
        shown["settings"] = {
            "is_consistent_container_name_enabled": application.keeps_container_name,
            "is_auto_deploy_enabled": True,
        }
    return shown


def padded(shown: dict[str, Any], *, size: int) -> dict[str, Any]:
    """Most of a real row is the proxy's labels, in base64, and the settings of its server."""
    missing = size - len(json.dumps(shown)) - len(', "custom_labels": ""')
    return {**shown, "custom_labels": "dHJhZWZpay5lbmFibGU9dHJ1ZQ" * (missing // 26 + 1)}


DEFAULTS: dict[str, Any] = {
    "build_pack": "dockerimage",
    "git_repository": "coollabsio/coolify",
    "git_branch": "main",
    "git_commit_sha": "HEAD",
    "ports_exposes": "80",
    "ports_mappings": None,
    "base_directory": "/",
    "health_check_enabled": False,
    "health_check_path": "/",
    "health_check_interval": 5,
    "health_check_timeout": 5,
    "health_check_retries": 10,
    "health_check_start_period": 5,
    "limits_memory": "0",
    "limits_memory_swap": "0",
    "limits_cpus": "0",
    "destination_type": "App\\Models\\StandaloneDocker",
    "redirect": "both",
    "deleted_at": None,
}
