"""Names of the schemas, as generated clients show them."""

from typing import Any

_PREFIX = "#/components/schemas/"
_NAMES = {
    "BotOut": "Bot",
    "BotInDetail": "BotWithPlace",
    "WaitingForOut": "WaitingFor",
    "EventOut": "BotEvent",
    "LogOut": "Log",
    "LogLineOut": "LogLine",
    "PoolOut": "Pool",
    "PressureOut": "Pressure",
    "SlotOut": "Slot",
    "QueueOut": "Queue",
    "ServerOut": "Server",
    "ImageOut": "ImageOnServer",
    "PrepullOut": "Prepull",
    "OrderOut": "CurrentOrder",
    "WindowOut": "MaintenanceWindow",
}


def with_good_names(schema: dict[str, Any]) -> dict[str, Any]:
    schemas = schema["components"]["schemas"]
    schema["components"]["schemas"] = {
        _NAMES.get(name, name): {**each, "title": _NAMES.get(name, name)}
        for name, each in schemas.items()
    }
    renamed: dict[str, Any] = _renamed(schema)
    return renamed


def _renamed(part: Any) -> Any:
    """Without the generated titles of fields, which only repeat their names."""
    if isinstance(part, list):
        return [_renamed(each) for each in part]
    if not isinstance(part, dict):
        return part
    result = {key: _renamed(value) for key, value in part.items()}
    reference = part.get("$ref", "")
    if isinstance(reference, str) and reference.startswith(_PREFIX):
        name = reference.removeprefix(_PREFIX)
        result["$ref"] = _PREFIX + _NAMES.get(name, name)
    properties = result.get("properties")
    if part.get("type") == "object" and isinstance(properties, dict):
        for field in properties.values():
            field.pop("title", None)
    return result
