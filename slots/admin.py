from django.contrib import admin

from core.admin import ActionPermission, ReadOnlyAdmin, known_values, page_action
from core.administration.badges import badge
from slots.description import wanted_description
from slots.images import PlatformImage, Prepull
from slots.models import Deployment, Finding, Lease, Pool, Slot, SlotTransition, WarmImage, Watch
from slots.status import SlotStatus


@admin.register(Slot)
class SlotAdmin(ActionPermission, ReadOnlyAdmin):
    list_display = [
        "name", "platform", "status", "status_since", "assigned_bot", "container",
        "in_service", "error",
    ]  # fmt: skip
    list_filter = ["platform", "status", "container_status", "cordoned", "recreate"]
    search_fields = ["name", "=coolify_uuid", "=assigned_bot__id", "error"]
    list_select_related = ["assigned_bot"]
    ordering = ["platform", "number"]
    actions = [
        page_action("force-release", "Force release"),
        page_action("stop", "Stop"),
        page_action("recreate", "Recreate"),
        page_action("retry", "Retry"),
        page_action("cordon", "Cordon"),
        page_action("uncordon", "Uncordon"),
        page_action("delete", "Delete slot and application"),
    ]

    readonly_fields = ["description_in_coolify"]

    @admin.display(description="description in Coolify")
    def description_in_coolify(self, slot: Slot) -> str:
        return wanted_description(slot)

    @admin.display(description="container", ordering="container_status")
    def container(self, slot: Slot) -> str:
        return "not observed yet" if slot.container_is_of_before else badge(slot.container_status)

    @admin.display(description="in service", ordering="cordoned")
    def in_service(self, slot: Slot) -> str:
        """One word for three flags, of which most slots have none."""
        if slot.beyond_size:
            return badge("beyond_the_size")
        if slot.quarantined:
            return badge("quarantined")
        return badge("cordoned") if slot.cordoned else "yes"

    def view_on_site(self, slot: Slot) -> str:
        return f"/slots/{slot.name}/"


@admin.register(Pool)
class PoolAdmin(ActionPermission, ReadOnlyAdmin):
    list_display = ["platform", "max_size", "paused_at", "paused_until", "paused_by"]
    actions = [
        page_action("pause", "Pause"),
        page_action("resume", "Resume"),
        page_action("resize", "Change size"),
        page_action("reset-size", "Return to the size of MAX_POOL_SIZE"),
    ]


@admin.register(SlotTransition)
class SlotTransitionAdmin(ReadOnlyAdmin):
    list_display = [
        "at", "slot_name", "from_status", "to_status", "after", "bot_id", "reason", "actor",
    ]  # fmt: skip
    list_filter = [known_values("to_status", SlotStatus)]
    search_fields = ["=slot_name", "=correlation_id", "=bot__id"]
    ordering = ["-pk"]

    @admin.display(description="after", ordering="lasted")
    def after(self, line: SlotTransition) -> str:
        return "–" if line.lasted is None else f"{line.lasted.total_seconds():,.1f} s"


@admin.register(Deployment)
class DeploymentAdmin(ActionPermission, ReadOnlyAdmin):
    list_display = [
        "id", "slot_name", "bot_id", "status", "leader", "attempt", "created_at", "ended_at",
        "reason",
    ]  # fmt: skip
    list_filter = ["status", "failure_cause", "leader"]
    search_fields = ["=slot_name", "=deployment_uuid", "=bot__id"]
    ordering = ["-pk"]
    actions = [page_action("cancel-deployment", "Cancel")]


@admin.register(Finding)
class FindingAdmin(ReadOnlyAdmin):
    list_display = [
        "kind", "name", "sightings", "first_seen_at", "last_seen_at", "outcome", "ended_at",
    ]  # fmt: skip
    list_filter = ["kind"]
    search_fields = ["name", "=subject"]
    ordering = ["-pk"]


@admin.register(Lease)
class LeaseAdmin(ActionPermission, ReadOnlyAdmin):
    list_display = [
        "key", "holder", "fence", "acquired_at", "expires_at", "waits", "refusals", "takeovers",
    ]  # fmt: skip
    search_fields = ["key", "holder"]
    actions = [page_action("break-lease", "Break")]


@admin.register(WarmImage)
class WarmImageAdmin(ActionPermission, ReadOnlyAdmin):
    list_display = [
        "image", "server_uuid", "state", "evidence", "confirmed_at", "trusted_until", "cold_reason",
    ]  # fmt: skip
    actions = [page_action("mark-cold", "Mark cold")]


@admin.register(PlatformImage)
class PlatformImageAdmin(ActionPermission, ReadOnlyAdmin):
    list_display = ["platform", "image", "since", "wanted", "named", "previous", "restored_by"]
    actions = [
        page_action("restore-image", "Restore the previous image"),
        page_action("follow-image", "Follow the environment again"),
    ]


@admin.register(Prepull)
class PrepullAdmin(ActionPermission, ReadOnlyAdmin):
    list_display = [
        "id", "image", "server_uuid", "status", "detail", "asked_by", "created_at", "ended_at",
    ]  # fmt: skip
    list_filter = ["status"]
    search_fields = ["image", "=server_uuid"]
    ordering = ["-pk"]
    actions = [page_action("cancel-prepull", "Cancel")]


@admin.register(Watch)
class WatchAdmin(ReadOnlyAdmin):
    list_display = ["looked_at", "failing_since", "error"]
