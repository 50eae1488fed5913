"""The activity page: history of slots and bots, repairs, operators, leases and the system."""

from typing import Any

from django.http import Http404, HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_safe

from coolify.budget.report import budget_report
from coolify.models import Budget
from core.jobs.jobs import works
from core.lease_waits import waits
from core.permissions import OPERATE, VIEW
from dashboard.activity.records import KINDS, Records
from dashboard.audit import record_action
from dashboard.lists.csv_export import MOST_EXPORTED, csv_file
from dashboard.live import live_page, version_of
from dashboard.paging import older
from dashboard.permissions import needs
from pool.reconciler.approvals import held_back_repairs
from pool.reconciler.reconcile import reconcile
from servers.models import Server
from slots.locks import slots_of_leases
from slots.models import Finding, Lease

TABS = [
    *((kind.name, kind.title) for kind in KINDS.values()),
    ("leases", "Leases"),
    ("parts", "System"),
]


@require_safe
@needs(VIEW)
def activity(request: HttpRequest) -> HttpResponse:
    tab = request.GET.get("show", "slots")
    if tab in KINDS:
        return _records(request, KINDS[tab])
    if tab == "leases":
        return _leases(request)
    if tab == "parts":
        return _system(request)
    raise Http404


def _records(request: HttpRequest, kind: Records) -> HttpResponse:
    page = older(kind.matching(request.GET), request.GET)

    held = held_back_repairs() if kind.model is Finding else Finding.objects.none()

    def live() -> dict[str, Any]:
        rows, before = page.shown()
        return {"tab": kind.name, "rows": rows, "before": before, "held": list(held)}

    return _tab(
        request,
        tab=kind.name,
        version=version_of(page.rows, held),
        live=live,
        choices={"status": [(each, each) for each in kind.statuses]} if kind.statuses else {},
    )


def _leases(request: HttpRequest) -> HttpResponse:
    leases = Lease.objects.order_by("-acquired_at")[:200]
    return _tab(
        request,
        tab="leases",
        version=version_of(leases),
        live=lambda: {
            "tab": "leases",
            "leases": leases,
            "slots": slots_of_leases(leases),
            "waits": waits(),
        },
    )


def _system(request: HttpRequest) -> HttpResponse:
    names = [work.name for work in works()]
    jobs = Lease.objects.filter(key__in=names).order_by("key")
    servers = Server.objects.order_by("name")
    return _tab(
        request,
        tab="parts",
        version=version_of(jobs, servers, Budget.objects.all()),
        live=lambda: {
            "tab": "parts",
            "budget": budget_report(),
            "works": jobs,
            "servers": servers,
        },
    )


def _tab(
    request: HttpRequest, *, tab: str, version: str, live: Any, choices: Any = None
) -> HttpResponse:
    return live_page(
        request,
        template="dashboard/activity.html",
        version=version,
        live=live,
        frame=lambda: {
            "tabs": TABS,
            "tab": tab,
            "has_records": tab in KINDS,
            "choices": choices or {},
            "given": request.GET,
        },
    )


# --- Export ------------------------------------------------------------------------------------


@require_safe
@needs(VIEW)
def export(request: HttpRequest) -> StreamingHttpResponse:
    kind = KINDS.get(request.GET.get("show", "slots"))
    if kind is None:
        raise Http404
    rows = kind.matching(request.GET).order_by("-pk").values_list(*kind.columns)
    return csv_file(kind.name, kind.columns, rows[:MOST_EXPORTED].iterator(chunk_size=2_000))


# --- Dry run -----------------------------------------------------------------------------------


@require_http_methods(["GET", "HEAD", "POST"])
@needs(OPERATE)
def dry_run(request: HttpRequest) -> HttpResponse:
    """Show what the reconciler would do now. Changes nothing."""
    if request.method != "POST":  # a login can lead here; the button is on that page
        return redirect(f"{reverse('activity')}?show=repairs")
    report = reconcile(dry_run=True)
    record_action(request.user, action="dry-run", target="reconciler", reason="Dry run", done=True)
    return render(request, "dashboard/dry_run.html", {"report": report})
