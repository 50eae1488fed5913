from django.contrib import admin

from coolify.models import Budget, CallCount, Refusal
from core.admin import ReadOnlyAdmin


@admin.register(Budget)
class BudgetAdmin(ReadOnlyAdmin):
    list_display = ["__str__", "paused_until", "failures", "open_since", "open_reason"]


@admin.register(CallCount)
class CallCountAdmin(ReadOnlyAdmin):
    list_display = ["name", "call_class", "outcome", "total"]
    list_filter = ["call_class", "outcome"]
    ordering = ["name"]


@admin.register(Refusal)
class RefusalAdmin(ReadOnlyAdmin):
    list_display = ["ability", "reason", "since", "probe_at", "probes"]
    exclude = ["token"]
