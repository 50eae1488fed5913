from django.contrib import admin

from bots.masking import masked_text
from bots.models import Bot, BotEvent
from bots.status import BotStatus
from core.admin import ActionPermission, ReadOnlyAdmin, known_values, page_action


@admin.register(Bot)
class BotAdmin(ActionPermission, ReadOnlyAdmin):
    list_display = [
        "id", "status", "platform", "display_name", "meeting_url", "slot_name",
        "last_heartbeat_at", "created_at", "failure_reason",
    ]  # fmt: skip
    list_filter = ["status", "platform", "failure_kind"]
    search_fields = ["=id", "=correlation_id", "meeting_url", "display_name"]
    ordering = ["-pk"]
    exclude = ["config"]
    readonly_fields = ["configuration"]
    actions = [page_action("cancel-bot", "Cancel"), page_action("try-again", "Try again")]

    def view_on_site(self, bot: Bot) -> str:
        return f"/bots/{bot.pk}/"

    @admin.display(description="configuration (secrets hidden)")
    def configuration(self, bot: Bot) -> str:
        return masked_text(bot.config)


@admin.register(BotEvent)
class BotEventAdmin(ReadOnlyAdmin):
    list_display = ["at", "bot_id", "from_status", "to_status", "slot_name", "reason", "actor"]
    list_filter = [known_values("to_status", BotStatus)]
    search_fields = ["=bot__id", "=correlation_id", "=slot_name"]
    ordering = ["-pk"]
