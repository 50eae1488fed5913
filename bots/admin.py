from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from bots.masking import masked_text
from bots.meetings import masked_address, searched_words
from bots.models import Bot, BotEvent
from bots.status import BotStatus
from core.admin import ActionPermission, ReadOnlyAdmin, known_values, page_action


@admin.register(Bot)
class BotAdmin(ActionPermission, ReadOnlyAdmin):
    list_display = [
        "id", "status", "platform", "display_name", "meeting", "slot_name",
        "last_heartbeat_at", "created_at", "failure_reason",
    ]  # fmt: skip
    list_filter = ["status", "platform", "failure_kind"]
    search_fields = ["=id", "=correlation_id", "shown_address", "display_name"]
    ordering = ["-pk"]
    exclude = ["config", "meeting_url", "shown_address"]
    readonly_fields = ["meeting", "configuration"]
    actions = [page_action("cancel-bot", "Cancel"), page_action("try-again", "Try again")]

    def view_on_site(self, bot: Bot) -> str:
        return f"/bots/{bot.pk}/"

    def get_search_results(
        self, request: HttpRequest, bots: QuerySet[Bot], words: str
    ) -> tuple[QuerySet[Bot], bool]:
        found: tuple[QuerySet[Bot], bool] = super().get_search_results(
            request, bots, searched_words(words)
        )
        return found

    @admin.display(description="meeting address (secrets hidden)")
    def meeting(self, bot: Bot) -> str:
        return masked_address(bot.meeting_url)

    @admin.display(description="configuration (secrets hidden)")
    def configuration(self, bot: Bot) -> str:
        return masked_text(bot.config)


@admin.register(BotEvent)
class BotEventAdmin(ReadOnlyAdmin):
    list_display = ["at", "bot_id", "from_status", "to_status", "slot_name", "reason", "actor"]
    list_filter = [known_values("to_status", BotStatus)]
    search_fields = ["=bot__id", "=correlation_id", "=slot_name"]
    ordering = ["-pk"]
