"""The text that Coolify's own list shows for a slot."""

from django.conf import settings

from coolify import description_text as text
from slots.models import Slot
from slots.status import SlotStatus


def wanted_description(slot: Slot) -> str:
    """The description that Coolify should show. Derived from the slot, so it cannot drift."""
    style = text.DescriptionStyle(settings.COOLIFY_DESCRIPTION_STYLE)
    bot, since = slot.assigned_bot_id or "", slot.status_since
    match slot.status:
        case SlotStatus.DEPLOYING:
            return text.describe_deploying(bot=bot, since=since, style=style)
        case SlotStatus.BUSY:
            return text.describe_busy(bot=bot, since=since, style=style)
        case SlotStatus.STOPPING:
            return text.describe_stopping(since=since, style=style)
        case SlotStatus.ERROR:
            return text.describe_error(cause=slot.error, at=since, style=style)
    return text.describe_idle(last_used=slot.last_used_at, style=style)
