from django.contrib import admin
from django.urls import include, path
from django.views.generic import RedirectView

from botpool.admin import show_the_rest
from botpool.telemetry.metrics import metrics
from botpool.telemetry.views import healthz, readyz

show_the_rest()

handler500 = "botpool.telemetry.views.server_error"

urlpatterns = [
    path("healthz", healthz, name="healthz"),
    path("readyz", readyz, name="readyz"),
    path("metrics", metrics, name="metrics"),
    path("api/", include("api.urls")),
    # One login page, whose rate limits then protect the admin too.
    path("admin/login/", RedirectView.as_view(pattern_name="login", query_string=True)),
    path("admin/", admin.site.urls),
    path("", include("dashboard.urls")),
]
