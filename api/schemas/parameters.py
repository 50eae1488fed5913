"""Refuse unknown query parameters: a misspelled filter would list everything."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.http import HttpRequest

from api.problems import wrong_fields


def refuse_unknown_parameters(view: Callable[..., Any]) -> Callable[..., Any]:
    models = view._ninja_operation.models  # type: ignore[attr-defined]
    known = sorted(
        name
        for model in models
        if model.__ninja_param_source__ == "query"
        for name in model.__ninja_flatten_map__
    )
    hint = f"Allowed: {', '.join(known)}." if known else "This call takes none."

    @wraps(view)
    def checked(request: HttpRequest, **values: Any) -> Any:
        unknown = request.GET.keys() - known if request.method == "GET" else ()
        if unknown:
            raise wrong_fields({name: [f"Unknown parameter. {hint}"] for name in unknown})
        return view(request, **values)

    return checked
