"""The Django admin: users, and all models that no app registers itself."""

from typing import Any

from django.apps import apps
from django.contrib import admin
from django.contrib.auth.admin import UserAdmin
from django.contrib.auth.models import User
from django.db.models import QuerySet
from django.http import HttpRequest

from core.admin import ReadOnlyAdmin
from dashboard.roles import OUR_APPS

admin.site.site_header = "Botpool"
admin.site.site_title = "Botpool"
admin.site.index_title = "Administration"
admin.site.enable_nav_sidebar = False

admin.site.sections = (  # type: ignore[attr-defined]
    ("Access", ("auth.User", "auth.Group", "bots.ApiKey", "bots.Client")),
    ("Pool", ("slots.Slot", "slots.Pool", "coolify.Server", "slots.WarmImage")),
    ("Bots", ("bots.Bot", "queues.QueueEntry", "slots.Deployment")),
    ("Webhooks", ("bots.WebhookEndpoint", "bots.WebhookDelivery")),
    (
        "Records",
        (
            "botpool.OperatorAction",
            "bots.BotEvent",
            "slots.SlotTransition",
            "slots.Finding",
            "botpool.LoginFailure",
            "django_q.Failure",
        ),
    ),
)

admin.site.unregister(User)


@admin.register(User)
class RestrainedUserAdmin(UserAdmin):
    """Only superusers can create or change superusers, or grant individual permissions."""

    list_display = ("username", "roles", "email", "is_staff", "is_active", "last_login")

    @admin.display(description="roles")
    def roles(self, user: User) -> str:
        names = ", ".join(sorted(group.name for group in user.groups.all()))
        return names or ("all rights" if user.is_superuser else "–")

    def get_readonly_fields(self, request: HttpRequest, obj: User | None = None) -> Any:
        fields = super().get_readonly_fields(request, obj)
        if request.user.is_superuser:
            return fields
        return [*fields, "is_superuser", "user_permissions"]

    def has_change_permission(self, request: HttpRequest, obj: User | None = None) -> bool:
        return super().has_change_permission(request, obj) and _may_change(request, obj)

    def has_delete_permission(self, request: HttpRequest, obj: User | None = None) -> bool:
        return super().has_delete_permission(request, obj) and _may_change(request, obj)

    def get_queryset(self, request: HttpRequest) -> QuerySet[User]:
        users: QuerySet[User] = super().get_queryset(request).prefetch_related("groups")
        # Bulk actions check no permission per object, so superusers are left out of the list.
        return users if request.user.is_superuser else users.filter(is_superuser=False)


def _may_change(request: HttpRequest, user: User | None) -> bool:
    return request.user.is_superuser or user is None or not user.is_superuser


def show_the_rest() -> None:
    """Register every other model as a read-only list."""
    for app in OUR_APPS:
        for model in apps.get_app_config(app).get_models():
            if not admin.site.is_registered(model):
                shown = [field.name for field in model._meta.concrete_fields][:8]
                admin.site.register(model, ReadOnlyAdmin, list_display=shown)
