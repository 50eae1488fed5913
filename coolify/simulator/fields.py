"""The fields that Coolify accepts, their types, and how it rejects all others."""

import json
import re
from collections.abc import Mapping
from typing import Any

from coolify.simulator.messages import Request, invalid, refusal

NAMES_BY_TYPE: dict[type, str] = {
    str: """
        docker_registry_image_name docker_registry_image_tag ports_exposes name description domains
        ports_mappings health_check_path health_check_port health_check_host health_check_method
        health_check_scheme health_check_response_text limits_memory limits_memory_swap
        limits_memory_reservation limits_cpus limits_cpuset custom_labels custom_docker_run_options
        post_deployment_command post_deployment_command_container pre_deployment_command
        pre_deployment_command_container manual_webhook_secret_github manual_webhook_secret_gitlab
        manual_webhook_secret_bitbucket manual_webhook_secret_gitea redirect gpu_driver gpu_count
        gpu_device_ids gpu_options custom_internal_name preview_url_template
        http_basic_auth_username http_basic_auth_password
    """,
    bool: """
        health_check_enabled instant_deploy is_force_https_enabled is_preview_deployments_enabled
        use_build_server use_build_secrets is_env_sorting_enabled is_pr_deployments_public_enabled
        is_gzip_enabled is_stripprefix_enabled is_log_drain_enabled is_gpu_enabled
        is_consistent_container_name_enabled is_http_basic_auth_enabled connect_to_docker_network
        force_domain_override is_container_label_escape_enabled
    """,
    int: """
        health_check_return_code health_check_interval health_check_timeout health_check_retries
        health_check_start_period limits_memory_swappiness limits_cpu_shares stop_grace_period
        docker_images_to_keep max_restart_count
    """,
}
COMMON: dict[str, type] = {
    **{name: kind for kind, names in NAMES_BY_TYPE.items() for name in names.split()},
    "noindex_domains": list,
}
CREATE_FIELDS: dict[str, type] = {
    **COMMON,
    **dict.fromkeys(
        ("project_uuid", "server_uuid", "environment_name", "environment_uuid", "destination_uuid"),
        str,
    ),
    "autogenerate_domain": bool,
    "tags": list,
}
# PATCH cannot move an application, although Coolify's OpenAPI document lists those fields.
UPDATE_FIELDS: dict[str, type] = {
    **COMMON,
    **dict.fromkeys(("git_repository", "git_branch", "git_commit_sha", "build_pack"), str),
    "is_static": bool,
    "is_auto_deploy_enabled": bool,
}
VARIABLE_FIELDS: dict[str, type] = {
    "key": str,
    "value": str,
    "comment": str,
    **dict.fromkeys(
        (
            "is_preview",
            "is_literal",
            "is_multiline",
            "is_shown_once",
            "is_runtime",
            "is_buildtime",
        ),
        bool,
    ),
}
TYPE_NAMES = {str: "string", bool: "boolean", int: "integer", list: "array"}
LONGEST = {"name": 255}
RANGES = {
    "stop_grace_period": (1, 3600),
    "docker_images_to_keep": (0, 100),
    "max_restart_count": (0, 2**31),
}
# A registry with its port, then lowercase parts; a tag; numbers separated by commas.
PATTERNS = {
    "docker_registry_image_name": re.compile(
        r"([A-Za-z0-9.-]+(:\d+)?/)?[a-z0-9]+([._/-]+[a-z0-9]+)*(:\w[\w.-]{0,127})?"
        r"(@sha256:[0-9a-f]{64})?"
    ),
    "docker_registry_image_tag": re.compile(r"\w[\w.-]{0,127}", re.ASCII),
    "ports_exposes": re.compile(r"\d+(,\d+)*"),
}


def json_body(request: Request) -> dict[str, Any]:
    if "json" not in request.headers.get("content-type", ""):
        raise refusal(400, "Invalid request.", error="Content-Type must be application/json.")
    try:
        body = json.loads(request.body)
    except ValueError as error:
        raise refusal(400, "Invalid request.", error="Invalid JSON.") from error
    if not isinstance(body, dict) or not body:
        raise refusal(400, "Invalid request.", error="Empty JSON.")
    return body


def checked(data: Mapping[str, Any], *, allowed: Mapping[str, type]) -> None:
    errors = field_errors(data, allowed=allowed)
    if errors:
        raise invalid(errors)


def field_errors(data: Mapping[str, Any], *, allowed: Mapping[str, type]) -> dict[str, list[str]]:
    errors: dict[str, list[str]] = {}
    for name, value in data.items():
        complaint = field_error(name, value, kind=allowed.get(name))
        if complaint:
            errors[name] = [complaint]
    return errors


def field_error(name: str, value: Any, *, kind: type | None) -> str | None:
    words = name.replace("_", " ")
    if kind is None:
        return "This field is not allowed."
    if value is None:
        return None
    if kind is int and isinstance(value, str) and value.isdecimal():  # as in PHP
        value = int(value)
    if type(value) is not kind:  # not isinstance: in Python, True is an int
        return f"The {words} field must be a {TYPE_NAMES[kind]}."
    return limit_error(name, value)


def limit_error(name: str, value: Any) -> str | None:
    words = name.replace("_", " ")
    if name in LONGEST and len(value) > LONGEST[name]:
        return f"The {words} field must not be greater than {LONGEST[name]} characters."
    if name in RANGES and not RANGES[name][0] <= value <= RANGES[name][1]:
        return f"The {words} field must be between {RANGES[name][0]} and {RANGES[name][1]}."
    if name in PATTERNS and value and not PATTERNS[name].fullmatch(value):
        return f"The {words} field format is invalid."
    return None


def known_query(request: Request, *, allowed: frozenset[str]) -> None:
    unknown = sorted(set(request.query) - allowed)
    if unknown:
        raise invalid({name: ["This field is not allowed."] for name in unknown})


def flag(request: Request, name: str, *, default: bool) -> bool:
    value = request.query.get(name)
    if value is None:
        return default
    if value.lower() not in ("true", "false", "1", "0"):
        raise invalid({name: [f"The {name.replace('_', ' ')} field must be true or false."]})
    return value.lower() in ("true", "1")


def number(request: Request, name: str, *, default: int) -> int:
    """As in Coolify, which ignores a value that is no number."""
    value = request.query.get(name, "")
    return int(value) if value.isdecimal() else default
