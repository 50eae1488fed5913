from django.contrib import admin
from django.urls import include, path

from botpool.admin import show_the_rest
from botpool.telemetry.metrics import metrics
from botpool.telemetry.views import healthz, readyz
from dashboard.login import admin_login

show_the_rest()

handler400 = "botpool.unknown_hosts.bad_request"
handler500 = "botpool.telemetry.views.server_error"

urlpatterns = [
    path("healthz", healthz, name="healthz"),
    path("readyz", readyz, name="readyz"),
    path("metrics", metrics, name="metrics"),
    path("api/", include("api.urls")),
    path("admin/login/", admin_login),
    path("admin/", admin.site.urls),
    path("", include("dashboard.urls")),
]
