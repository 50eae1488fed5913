"""The API: its routers, error handlers and OpenAPI schema."""

import logging
from typing import Any

from django.core.exceptions import BadRequest, RequestDataTooBig, SuspiciousOperation
from django.db import DatabaseError, InterfaceError
from django.http import HttpRequest, HttpResponse
from django.http.request import UnreadablePostError
from ninja import NinjaAPI, Swagger
from ninja.errors import (
    AuthenticationError,
    HttpError,
    ValidationError,
    ValidationErrorContext,
)

from api import bots as callbacks
from api import clients, pool, servers
from api import coolify_webhook as coolify
from api.access import unauthorized
from api.docs.description import DESCRIPTION, complete
from api.docs.page import with_strict_policy
from api.problems import (
    DETAILS,
    Problem,
    errors_by_field,
    problem_response,
    too_big,
    wrong_fields,
)
from api.schemas.bodies import StrictParser
from core.sql import is_unavailable

logger = logging.getLogger(__name__)


class BotpoolApi(NinjaAPI):
    _openapi_schema: dict[str, Any] | None = None

    def get_openapi_schema(self, **options: Any) -> Any:
        if self._openapi_schema is None:
            schema = super().get_openapi_schema(**options)
            self._openapi_schema = complete(schema)
        return self._openapi_schema

    def validation_error_from_error_contexts(
        self, error_contexts: list[ValidationErrorContext[Any]]
    ) -> ValidationError:
        error = super().validation_error_from_error_contexts(error_contexts)
        # Pydantic's error hides what it refers to from the garbage collector. If a validator raised
        # a ValueError, that is every frame of this request, and one of them holds this list.
        error_contexts.clear()
        return error


api = BotpoolApi(
    title="Botpool",
    version="1.0.0",
    description=DESCRIPTION,
    parser=StrictParser(),
    docs=Swagger(settings={"tryItOutEnabled": True}),
    docs_decorator=with_strict_policy,
    urls_namespace="api",
)
# In the order in which the description lists them: what clients need first.
api.add_router("/bots", clients.router)
api.add_router("", pool.router)
api.add_router("", servers.router)
api.add_router("", callbacks.router)
api.add_router("", coolify.router)


@api.exception_handler(Problem)
def _problem(request: HttpRequest, problem: Problem) -> HttpResponse:
    return problem_response(problem)


@api.exception_handler(AuthenticationError)
def _missing_credentials(request: HttpRequest, error: AuthenticationError) -> HttpResponse:
    return problem_response(unauthorized("The `Authorization: Bearer …` header is missing."))


@api.exception_handler(ValidationError)
def _invalid_request(request: HttpRequest, error: ValidationError) -> HttpResponse:
    return problem_response(wrong_fields(errors_by_field(error.errors)))


@api.exception_handler(RequestDataTooBig)
def _too_big(request: HttpRequest, error: RequestDataTooBig) -> HttpResponse:
    return problem_response(too_big())


@api.exception_handler(HttpError)
def _http_error(request: HttpRequest, error: HttpError) -> HttpResponse:
    cause = error.__cause__  # ninja wraps what the parser raises
    problem = cause if isinstance(cause, Problem) else Problem(error.status_code, error.message)
    return problem_response(problem)


@api.exception_handler(UnreadablePostError)
@api.exception_handler(BadRequest)
@api.exception_handler(SuspiciousOperation)
def _bad_request(request: HttpRequest, error: Exception) -> HttpResponse:
    return problem_response(Problem(400, DETAILS[400]))


@api.exception_handler(DatabaseError)
@api.exception_handler(InterfaceError)
def _database_unavailable(request: HttpRequest, error: Exception) -> HttpResponse:
    if not is_unavailable(error):
        return _internal_error(request, error)
    logger.error("The API cannot reach or change the database: %s", str(error).strip())
    return problem_response(Problem(503, DETAILS[503], headers={"Retry-After": "2"}))


@api.exception_handler(Exception)
def _internal_error(request: HttpRequest, error: Exception) -> HttpResponse:
    # Log the route only: the path and the body may contain secrets.
    logger.exception(
        "Unhandled error in the API at %s", request.resolver_match and request.resolver_match.route
    )
    return problem_response(Problem(500, DETAILS[500]))
