"""Check requests and answers against Coolify's published OpenAPI document, with corrections."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

from coolify.simulator.http.api import PREFIX
from coolify.simulator.messages import Answer, Request

PUBLISHED = Path(__file__).parents[2] / "shared" / "coolify" / "openapi-subset.json"
DOCUMENT = "urn:coolify"
# Routes of Coolify that the excerpt of its document at hand does not contain.
NOT_AT_HAND = re.compile(
    r"/servers/[^/]+(/[a-z-]+)?|/applications/[^/]+/rollback-images|/notifications/webhook"
)
# Status codes that the document omits almost everywhere.
UNDESCRIBED = {403, 404, 405, 409, 422, 429, 500, 502, 503}
REFUSED_BY_PATCH = (
    "project_uuid",
    "server_uuid",
    "environment_name",
    "github_app_uuid",
    "destination_uuid",
)
MISSING_VARIABLE_FIELDS = {
    "is_runtime": {"type": "boolean"},
    "is_buildtime": {"type": "boolean"},
    "comment": {"type": "string", "nullable": True},
}


class PublishedCoolify:
    """Finds what in a request or an answer contradicts the published document."""

    def __init__(self, document: dict[str, Any]) -> None:
        self._document = with_nulls(corrected(copy.deepcopy(document)))
        resource = Resource(contents=self._document, specification=DRAFT202012)
        self._registry = Registry().with_resource(DOCUMENT, resource)

    @classmethod
    def load(cls) -> PublishedCoolify:
        return cls(json.loads(PUBLISHED.read_text()))

    def complaints(self, request: Request, answer: Answer) -> list[str]:
        path, operation = self._operation(request)
        if NOT_AT_HAND.fullmatch(request.path.removeprefix(PREFIX)):
            return []
        if operation is None:
            return [f"{request.method} {request.path} is not described"]
        where = f"{request.method} {path}"
        found = [
            *self._about_query(request, operation),
            *self._about_body(request, operation, pointer=[path, request.method.lower()]),
            *self._about_answer(answer, operation, pointer=[path, request.method.lower()]),
        ]
        return [f"{where}: {each}" for each in found]

    def _operation(self, request: Request) -> tuple[str, dict[str, Any] | None]:
        given = request.path.removeprefix(PREFIX).split("/")
        # Literal paths come before those with variable parts.
        for path in sorted(self._document["paths"], key=lambda each: each.count("{")):
            wanted = path.split("/")
            fits = len(wanted) == len(given) and all(
                want == have or want.startswith("{")
                for want, have in zip(wanted, given, strict=True)
            )
            operation = self._document["paths"][path].get(request.method.lower())
            if fits and operation:
                return path, operation
        return request.path, None

    def _about_query(self, request: Request, operation: dict[str, Any]) -> list[str]:
        known = {
            each["name"]: each["schema"]
            for each in operation.get("parameters", [])
            if each["in"] == "query"
        }
        unknown = [f"query {name} is unknown" for name in request.query if name not in known]
        wrong = [
            f"query {name}={value} is not of type {known[name]['type']}"
            for name, value in request.query.items()
            if name in known and not fits_type(value, known[name]["type"])
        ]
        return unknown + wrong

    def _about_body(
        self, request: Request, operation: dict[str, Any], *, pointer: list[str]
    ) -> list[str]:
        if "requestBody" not in operation:
            return ["a body is not described"] if request.body else []
        try:
            body = json.loads(request.body)
        except ValueError:
            return ["the body is not JSON"]
        place = [*pointer, "requestBody", "content", "application/json", "schema"]
        return self._check(body, place)

    def _about_answer(
        self, answer: Answer, operation: dict[str, Any], *, pointer: list[str]
    ) -> list[str]:
        code = str(answer.status)
        if code not in operation["responses"]:
            return [] if answer.status in UNDESCRIBED else [f"an answer {code} is not described"]
        described = operation["responses"][code]
        if "$ref" in described:
            place = [*described["$ref"].removeprefix("#/").split("/"), "content"]
            described = self._document["components"]["responses"][code]
        else:
            place = ["paths", *pointer, "responses", code, "content"]
        kinds = [kind for kind in described.get("content", {}) if kind in answer.content_type]
        if described.get("content") and not kinds:
            return [f"{answer.content_type} is not described"]
        return self._check_at(answer.body, [*place, *kinds, "schema"]) if kinds else []

    def _check(self, value: Any, place: list[str]) -> list[str]:
        return self._check_at(value, ["paths", *place])

    def _check_at(self, value: Any, place: list[str]) -> list[str]:
        pointer = "/".join(each.replace("~", "~0").replace("/", "~1") for each in place)
        schema = {"$ref": f"{DOCUMENT}#/{pointer.replace('{', '%7B').replace('}', '%7D')}"}
        validator = Draft202012Validator(schema, registry=self._registry)
        return [
            f"{error.json_path} {error.message[:200]}" for error in validator.iter_errors(value)
        ]


def corrected(document: dict[str, Any]) -> dict[str, Any]:
    paths = document["paths"]
    create = body_schema(paths["/applications/dockerimage"]["post"])
    create["required"] = ["project_uuid", "server_uuid", "docker_registry_image_name"]
    update = body_schema(paths["/applications/{uuid}"]["patch"])
    for name in REFUSED_BY_PATCH:
        update["properties"].pop(name, None)
    for method in ("post", "patch"):
        add_variable_fields(body_schema(paths["/applications/{uuid}/envs"][method]))
    bulk = body_schema(paths["/applications/{uuid}/envs/bulk"]["patch"])
    add_variable_fields(bulk["properties"]["data"]["items"])
    for schema in (create, update, bulk):
        schema["additionalProperties"] = False
    document["components"]["schemas"]["Application"]["properties"]["build_pack"].pop("enum")
    correct_history(paths["/deployments/applications/{uuid}"]["get"])
    allow_indexed_object(paths["/deployments"]["get"])
    return document


def correct_history(operation: dict[str, Any]) -> None:
    queue = {"$ref": "#/components/schemas/ApplicationDeploymentQueue"}
    operation["responses"]["200"]["content"]["application/json"]["schema"] = {
        "type": "object",
        "required": ["count", "deployments"],
        "properties": {
            "count": {"type": "integer"},
            "deployments": {"type": "array", "items": queue},
        },
    }


def allow_indexed_object(operation: dict[str, Any]) -> None:
    """Coolify may return the list as an object keyed by index."""
    content = operation["responses"]["200"]["content"]["application/json"]
    items = content["schema"]["items"]
    indexed = {"type": "object", "patternProperties": {r"^\d+$": items}, "minProperties": 1}
    content["schema"] = {
        "anyOf": [content["schema"], indexed | {"additionalProperties": False}],
    }


def add_variable_fields(schema: dict[str, Any]) -> None:
    schema["properties"] |= copy.deepcopy(MISSING_VARIABLE_FIELDS)
    schema["additionalProperties"] = False


def body_schema(operation: dict[str, Any]) -> dict[str, Any]:
    schema: dict[str, Any] = operation["requestBody"]["content"]["application/json"]["schema"]
    return schema


def with_nulls(node: Any) -> Any:
    """Translate `nullable: true`, which has no meaning in OpenAPI 3.1."""
    if isinstance(node, list):
        return [with_nulls(each) for each in node]
    if not isinstance(node, dict):
        return node
    node = {name: with_nulls(value) for name, value in node.items()}
    if node.get("nullable") is True and isinstance(node.get("type"), str):
        node["type"] = [node["type"], "null"]
        if "enum" in node:
            node["enum"] = [*node["enum"], None]
    return node


def fits_type(value: str, kind: str) -> bool:
    if kind == "boolean":
        return value in ("true", "false", "1", "0")
    return value.isdigit() if kind == "integer" else True
