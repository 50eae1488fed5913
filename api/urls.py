from django.http import HttpRequest, HttpResponse
from django.urls import path, re_path
from django.views.decorators.csrf import csrf_exempt

from api.application import api
from api.problems import not_found, problem_response


@csrf_exempt
def nothing_here(request: HttpRequest) -> HttpResponse:
    return problem_response(not_found(request))


urlpatterns = [
    path("v1/", api.urls),
    re_path(r"", nothing_here),
]
