"""The Django admin: what the pages do not show, and the same actions through the same doors."""

from typing import Any

from django.apps import apps
from django.contrib import admin
from django.contrib.auth.admin import UserAdmin
from django.contrib.auth.models import User
from django.core.paginator import Paginator
from django.db import connection
from django.db.models import Choices, Model, QuerySet
from django.http import HttpRequest, HttpResponseRedirect, QueryDict
from django.utils.functional import cached_property

from botpool.models import LoginFailure, OperatorAction, PeriodicWork, PoolSample, TickerLease
from botpool.roles import OPERATE, OUR_APPS

admin.site.site_header = "Botpool"
admin.site.site_title = "Botpool"
admin.site.index_title = "Everything there is"
admin.site.enable_nav_sidebar = False


class EstimatingPaginator(Paginator):
    """Counts large tables by PostgreSQL's own estimate: an exact count would read all of it."""

    EXACT_BELOW = 20_000

    @cached_property
    def count(self) -> int:
        rows: Any = self.object_list
        if isinstance(rows, QuerySet) and not rows.query.where:
            estimate = _estimated_rows(rows.model)
            if estimate > self.EXACT_BELOW:
                return estimate
        return len(rows) if isinstance(rows, list) else rows.count()


def _estimated_rows(model: type[Model]) -> int:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT reltuples::bigint FROM pg_class WHERE oid = %s::regclass",
            [model._meta.db_table],
        )
        row = cursor.fetchone()
    return int(row[0]) if row else 0


class ReadOnlyAdmin(admin.ModelAdmin):
    """To look at: it is changed by the lifecycle alone, or not at all."""

    show_full_result_count = False
    paginator = EstimatingPaginator
    list_per_page = 50

    def has_add_permission(self, request: HttpRequest, *args: Any) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False


def known_values(field: str, values: type[Choices]) -> type[admin.SimpleListFilter]:
    """A filter by a column of history: by itself Django would read all of it for its values."""

    class KnownValues(admin.SimpleListFilter):
        title = field.replace("_", " ")
        parameter_name = field

        def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[Any, Any]]:
            return list(values.choices)

        def queryset(self, request: HttpRequest, rows: QuerySet[Any]) -> QuerySet[Any]:
            value = self.value()
            return rows.filter(**{field: value}) if value else rows

    return KnownValues


class ActionPermission:
    """Mixed in where the admin offers actions: they need more than looking."""

    def has_operate_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm(OPERATE)


def page_action(name: str, title: str) -> Any:
    """An action of the admin that leads to the page which asks first; see botpool.pages.actions."""

    @admin.action(description=title, permissions=["operate"])
    def lead(
        model_admin: admin.ModelAdmin, request: HttpRequest, rows: QuerySet[Any]
    ) -> HttpResponseRedirect:
        given = QueryDict(mutable=True)
        given.setlist("item", [str(pk) for pk in rows.values_list("pk", flat=True)[:1_000]])
        given["next"] = request.get_full_path()
        return HttpResponseRedirect(f"/actions/{name}/?{given.urlencode()}")

    lead.__name__ = name.replace("-", "_")
    return lead


admin.site.unregister(User)


@admin.register(User)
class RestrainedUserAdmin(UserAdmin):
    """Who is not a superuser cannot make one, nor touch one, nor hand out single permissions."""

    def get_readonly_fields(self, request: HttpRequest, obj: User | None = None) -> Any:
        fields = super().get_readonly_fields(request, obj)
        if request.user.is_superuser:
            return fields
        return [*fields, "is_superuser", "user_permissions"]

    def has_change_permission(self, request: HttpRequest, obj: User | None = None) -> bool:
        return super().has_change_permission(request, obj) and _may_touch(request, obj)

    def has_delete_permission(self, request: HttpRequest, obj: User | None = None) -> bool:
        return super().has_delete_permission(request, obj) and _may_touch(request, obj)

    def get_queryset(self, request: HttpRequest) -> QuerySet[User]:
        users: QuerySet[User] = super().get_queryset(request)
        # Actions on many ask for no single one: so superusers are not among them.
        return users if request.user.is_superuser else users.filter(is_superuser=False)


def _may_touch(request: HttpRequest, user: User | None) -> bool:
    return request.user.is_superuser or user is None or not user.is_superuser


@admin.register(OperatorAction)
class OperatorActionAdmin(ReadOnlyAdmin):
    list_display = ["at", "username", "action", "target", "reason", "done", "outcome"]
    list_filter = ["action", "done"]
    search_fields = ["=username", "target", "reason"]
    ordering = ["-pk"]


@admin.register(PeriodicWork)
class PeriodicWorkAdmin(ReadOnlyAdmin):
    list_display = ["name", "asked_at", "started_at", "finished_at", "duration", "failed_at"]


@admin.register(TickerLease)
class TickerLeaseAdmin(ReadOnlyAdmin):
    list_display = ["holder", "seen_at"]


@admin.register(PoolSample)
class PoolSampleAdmin(ReadOnlyAdmin):
    list_display = ["minute", "platform", "idle", "deploying", "busy", "stopping", "error"]
    list_filter = ["platform"]
    ordering = ["-pk"]


@admin.register(LoginFailure)
class LoginFailureAdmin(ReadOnlyAdmin):
    list_display = ["at", "username", "address"]
    search_fields = ["=username", "=address"]
    ordering = ["-pk"]


def show_the_rest() -> None:
    """Register the models that need no list of their own making, to be looked at."""
    for app in OUR_APPS:
        for model in apps.get_app_config(app).get_models():
            if not admin.site.is_registered(model):
                shown = [field.name for field in model._meta.concrete_fields][:8]
                admin.site.register(model, ReadOnlyAdmin, list_display=shown)
