"""The product's URLs, and a bare view that does one INSERT."""

import json

from django.db import connection
from django.http import HttpRequest, JsonResponse
from django.urls import include, path
from django.views.decorators.csrf import csrf_exempt


@csrf_exempt
def bare(request: HttpRequest) -> JsonResponse:
    body = json.loads(request.body)
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO bench_bare (meeting_url) VALUES (%s) RETURNING id", [body["meetingUrl"]]
        )
        (number,) = cursor.fetchone()
    return JsonResponse({"id": number}, status=201)


urlpatterns = [path("bare", bare), path("", include("botpool.urls"))]
