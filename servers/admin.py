from django.contrib import admin

from core.admin import ActionPermission, ReadOnlyAdmin, page_action
from servers.models import Server


@admin.register(Server)
class ServerAdmin(ActionPermission, ReadOnlyAdmin):
    list_display = [
        "name", "uuid", "state", "state_since", "state_reason", "order", "window_from",
        "window_until", "read_at",
    ]  # fmt: skip
    list_filter = ["state", "order"]
    search_fields = ["name", "=uuid"]
    ordering = ["name"]
    actions = [
        page_action("cordon-server", "Cordon"),
        page_action("drain-server", "Drain"),
        page_action("maintenance", "Plan maintenance"),
        page_action("return-server", "Return to service"),
        page_action("warm-image", "Warm an image"),
    ]
