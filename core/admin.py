"""Shared by all Django admins: fast read-only lists, and actions that ask for confirmation."""

from typing import Any
from urllib.parse import urlencode

from django.contrib import admin, messages
from django.core.paginator import Paginator
from django.db.models import Choices, Model, QuerySet
from django.http import HttpRequest, HttpResponseRedirect
from django.utils.functional import cached_property

from core.administration.columns import readable_column
from core.administration.selections import keep_selection
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


MOST_CHOSEN = 1_000
LONGEST_PART = 2_000  # characters; the web server takes 4,094 as the first line of a request


def page_action(name: str, title: str, *, key: str = "pk") -> Any:
    """Return an admin action that redirects to its confirmation page; see dashboard.actions.

    `key` is the field that names the target of a row.
    """

    @admin.action(description=title, permissions=["operate"])
    def redirect(
        model_admin: admin.ModelAdmin, request: HttpRequest, rows: QuerySet[Any]
    ) -> HttpResponseRedirect | None:
        items = [str(each) for each in rows.values_list(key, flat=True)[: MOST_CHOSEN + 1]]
        if len(items) > MOST_CHOSEN:
            things = model_admin.opts.verbose_name_plural
            text = f"Select at most {MOST_CHOSEN:,} {things} at once. Nothing was changed."
            model_admin.message_user(request, text, messages.WARNING)
            return None
        return HttpResponseRedirect(f"/actions/{name}/?{_address_of(request, items)}")

    redirect.__name__ = name.replace("-", "_")
    return redirect


def _address_of(request: HttpRequest, items: list[str]) -> str:
    """The items, or the name of a selection that is kept, and the way back unless it is long."""
    chosen = urlencode({"item": items}, doseq=True)
    if len(chosen) > LONGEST_PART:
        chosen = urlencode({"selection": keep_selection(request, items)})
    back = urlencode({"next": request.get_full_path()})
    return chosen if len(back) > LONGEST_PART else f"{chosen}&{back}"
