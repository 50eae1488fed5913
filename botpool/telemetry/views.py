from django.http import HttpRequest, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from botpool.telemetry.health import reasons_not_to_serve


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
