from typing import Any

from django.contrib import admin
from django.db.models import Model
from django.http import HttpRequest

from coolify.models import Budget, CallCount


class ViewOnlyAdmin(admin.ModelAdmin):
    """Only the client writes these rows."""

    def has_add_permission(self, request: HttpRequest, *args: Any) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False


@admin.register(Budget)
class BudgetAdmin(ViewOnlyAdmin):
    list_display = ["__str__", "paused_until", "failures", "open_since", "open_reason"]


@admin.register(CallCount)
class CallCountAdmin(ViewOnlyAdmin):
    list_display = ["name", "call_class", "outcome", "total"]
    list_filter = ["call_class", "outcome"]
    ordering = ["name"]
