import logging
import sys

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_safe

from botpool.telemetry.health import reasons_not_to_serve
from core.sql import is_unavailable

logger = logging.getLogger(__name__)


@csrf_exempt  # a POST gets 405
@require_safe
@never_cache
def healthz(request: HttpRequest) -> JsonResponse:
    """This process is alive. readyz checks what it depends on."""
    return JsonResponse({"alive": True})


@csrf_exempt  # a POST gets 405
@require_safe
@never_cache
def readyz(request: HttpRequest) -> JsonResponse:
    reasons = reasons_not_to_serve()
    return JsonResponse({"ready": not reasons, "reasons": reasons}, status=503 if reasons else 200)


def server_error(request: HttpRequest) -> HttpResponse:
    """Django's handler for unexpected errors. A database that is away is not our error."""
    error = sys.exc_info()[1]
    if not is_unavailable(error):
        return render(request, "500.html", status=500)
    reason = str(error).strip().splitlines()[0]
    logger.error("A page cannot reach or change the database: %s: %s", request.path, reason)
    answer = render(request, "503.html", status=503)
    answer["Retry-After"] = "5"
    # Stops Django from logging it with a traceback, which would say no more.
    answer._has_been_logged = True  # type: ignore[attr-defined]
    return answer
