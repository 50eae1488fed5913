from datetime import datetime
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponseRedirect, QueryDict

from core.admin import ActionPermission, ReadOnlyAdmin
from queues.models import QueueEntry


@admin.action(description="Cancel", permissions=["operate"])
def cancel(
    model_admin: Any, request: HttpRequest, entries: QuerySet[QueueEntry]
) -> HttpResponseRedirect:
    """Redirect to the page that cancels the bots of these entries."""
    query = QueryDict(mutable=True)
    query.setlist("item", [str(pk) for pk in entries.values_list("bot_id", flat=True)[:1_000]])
    query["next"] = request.get_full_path()
    return HttpResponseRedirect(f"/actions/cancel-bot/?{query.urlencode()}")


@admin.register(QueueEntry)
class QueueEntryAdmin(ActionPermission, ReadOnlyAdmin):
    list_display = ["bot", "platform", "priority", "waiting_since", "timeout_at", "turn"]
    list_filter = ["platform"]
    search_fields = ["=bot__id", "=bot__correlation_id"]
    list_select_related = ["bot"]
    ordering = ["platform", "turn", "pk"]
    actions = [cancel]

    @admin.display(ordering="bot__status_since")
    def waiting_since(self, entry: QueueEntry) -> datetime:
        return entry.bot.status_since
