import sys

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from botpool.telemetry.health import reasons_not_to_serve
from core.sql import is_unavailable


@require_safe
@never_cache
def healthz(request: HttpRequest) -> JsonResponse:
    """This process is alive. readyz checks what it depends on."""
    return JsonResponse({"alive": True})


@require_safe
@never_cache
def readyz(request: HttpRequest) -> JsonResponse:
    reasons = reasons_not_to_serve()
    return JsonResponse({"ready": not reasons, "reasons": reasons}, status=503 if reasons else 200)


def server_error(request: HttpRequest) -> HttpResponse:
    """Django's handler for unexpected errors. A database that is away is not our error."""
    if not is_unavailable(sys.exc_info()[1]):
        return render(request, "500.html", status=500)
    answer = render(request, "503.html", status=503)
    answer["Retry-After"] = "5"
    return answer
