from datetime import datetime

from django.contrib import admin

from core.admin import ActionPermission, ReadOnlyAdmin, page_action
from queues.models import QueueEntry


@admin.register(QueueEntry)
class QueueEntryAdmin(ActionPermission, ReadOnlyAdmin):
    list_display = ["bot", "platform", "priority", "waiting_since", "timeout_at", "turn"]
    list_filter = ["platform"]
    search_fields = ["=bot__id", "=bot__correlation_id"]
    list_select_related = ["bot"]
    ordering = ["platform", "turn", "pk"]
    actions = [page_action("cancel-bot", "Cancel", key="bot_id")]

    @admin.display(ordering="bot__status_since")
    def waiting_since(self, entry: QueueEntry) -> datetime:
        return entry.bot.status_since
