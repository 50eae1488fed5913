"""Shared by all Django admins: fast read-only lists, and actions that ask for confirmation."""

from typing import Any

from django.contrib import admin
from django.core.paginator import Paginator
from django.db.models import Choices, Model, QuerySet
from django.http import HttpRequest, HttpResponseRedirect, QueryDict
from django.utils.functional import cached_property

from core.administration.columns import readable_column
from core.permissions import OPERATE
from core.sql import estimated_rows


class EstimatingPaginator(Paginator):
    """Uses PostgreSQL's estimate for large tables: an exact count would read the whole table."""

    EXACT_BELOW = 20_000

    @cached_property
    def count(self) -> int:
        rows: Any = self.object_list
        if isinstance(rows, QuerySet) and not rows.query.where:
            estimate = estimated_rows(rows.model._meta.db_table)
            if estimate > self.EXACT_BELOW:
                return estimate
        return len(rows) if isinstance(rows, list) else rows.count()


class ReadOnlyAdmin(admin.ModelAdmin):
    """View only: only the lifecycle changes these rows, if anything does."""

    show_full_result_count = False
    paginator = EstimatingPaginator
    list_per_page = 50

    def get_list_display(self, request: HttpRequest) -> list[Any]:
        """Coloured statuses, and words for yes and no."""
        return [readable_column(self.model, name) for name in super().get_list_display(request)]

    def has_add_permission(self, request: HttpRequest, *args: Any) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False


def known_values(field: str, values: type[Choices]) -> type[admin.SimpleListFilter]:
    """Return a filter with fixed choices: Django's own would read the whole table to find them."""

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
    """Mixin for admins with actions, which need more than permission to view."""

    def has_operate_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm(OPERATE)


def page_action(name: str, title: str) -> Any:
    """Return an admin action that redirects to its confirmation page; see dashboard.actions."""

    @admin.action(description=title, permissions=["operate"])
    def redirect(
        model_admin: admin.ModelAdmin, request: HttpRequest, rows: QuerySet[Any]
    ) -> HttpResponseRedirect:
        query = QueryDict(mutable=True)
        query.setlist("item", [str(pk) for pk in rows.values_list("pk", flat=True)[:1_000]])
        query["next"] = request.get_full_path()
        return HttpResponseRedirect(f"/actions/{name}/?{query.urlencode()}")

    redirect.__name__ = name.replace("-", "_")
    return redirect
