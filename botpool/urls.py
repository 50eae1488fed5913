from django.contrib import admin
from django.urls import include, path
from django.views.generic import RedirectView

from botpool.admin import show_the_rest
from botpool.metrics import metrics
from botpool.pages.action_list import act
from botpool.pages.activity import activity, dry_run, export
from botpool.pages.login import Logout, ThrottledLogin
from botpool.views import healthz, readyz

show_the_rest()

urlpatterns = [
    path("healthz", healthz, name="healthz"),
    path("readyz", readyz, name="readyz"),
    path("metrics", metrics, name="metrics"),
    path("login/", ThrottledLogin.as_view(), name="login"),
    path("logout/", Logout.as_view(), name="logout"),
    path("api/", include("bots.api.urls")),
    path("", include("slots.pages.urls")),
    path("", include("bots.pages.urls")),
    path("", include("queues.pages.urls")),
    path("activity/", activity, name="activity"),
    path("activity/export/", export, name="export"),
    path("activity/dry-run/", dry_run, name="dry_run"),
    path("actions/<slug:name>/", act, name="action"),
    # One way to log in, so that its limits hold for the admin too.
    path("admin/login/", RedirectView.as_view(pattern_name="login", query_string=True)),
    path("admin/", admin.site.urls),
]
