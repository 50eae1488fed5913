"""What all our Django admins share: read-only lists that stay quick, and actions that ask first."""

from typing import Any

from django.contrib import admin
from django.core.paginator import Paginator
from django.db import connection
from django.db.models import Choices, Model, QuerySet
from django.http import HttpRequest, HttpResponseRedirect, QueryDict
from django.utils.functional import cached_property

from core.permissions import OPERATE


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
    """An action of the admin that leads to the page which asks first; see dashboard.actions."""

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
