"""The pages of webhook endpoints: all of them, one with its deliveries, and a new one."""

from typing import Any

from django import forms
from django.contrib import messages
from django.db.models import Count, Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_http_methods, require_safe

from api.webhooks.addresses import WrongWebhookAddress, check_webhook_address
from api.webhooks.endpoints import EndpointExists, create_endpoint
from api.webhooks.signatures import secret_of
from bots.models import ApiKey, WebhookDelivery, WebhookEndpoint
from bots.status import BotStatus
from core.permissions import ADMINISTER, VIEW
from dashboard.audit import record_action
from dashboard.live import live_page, version_of
from dashboard.paging import older
from dashboard.permissions import needs

MOST_SHOWN = 500


@require_safe
@needs(VIEW)
def webhooks(request: HttpRequest) -> HttpResponse:
    endpoints = WebhookEndpoint.objects.select_related("api_key")
    # Those that need attention first.
    shown = endpoints.order_by("disabled_at", "failing_since", "api_key__name", "url")[:MOST_SHOWN]
    due = WebhookDelivery.objects.filter(due_at__isnull=False).order_by("pk")[:MOST_SHOWN]
    return live_page(
        request,
        template="clients/webhooks.html",
        version=version_of(shown, due),
        live=lambda: {"endpoints": list(shown.annotate(due=_DUE))},
    )


_DUE = Count("deliveries", filter=Q(deliveries__due_at__isnull=False))


@require_safe
@needs(VIEW)
def webhook(request: HttpRequest, pk: int) -> HttpResponse:
    found = get_object_or_404(WebhookEndpoint.objects.select_related("api_key"), pk=pk)
    rows = WebhookDelivery.objects.filter(endpoint=found).select_related("event", "webhook")
    page = older(rows, request.GET)

    def live() -> dict[str, Any]:
        deliveries, before = page.shown()
        return {"endpoint": found, "deliveries": deliveries, "before": before}

    return live_page(
        request,
        template="clients/webhook.html",
        version=version_of(WebhookEndpoint.objects.filter(pk=pk), page.rows),
        live=live,
        frame=lambda: {"endpoint": found},
    )


class NewEndpointForm(forms.Form):
    api_key = forms.ModelChoiceField(
        ApiKey.objects.filter(revoked_at=None).order_by("name"),
        label="API key",
        help_text="The endpoint hears of the bots that are requested with this key from now on.",
    )
    url = forms.CharField(
        label="Address",
        max_length=2000,
        widget=forms.TextInput(attrs={"placeholder": "https://app.example/hooks/botpool"}),
    )
    statuses = forms.MultipleChoiceField(
        choices=BotStatus.choices,
        required=False,
        widget=forms.SelectMultiple(attrs={"size": len(BotStatus)}),
        help_text="The statuses to send. Select none for all.",
    )

    def clean_url(self) -> str:
        try:
            return check_webhook_address(self.cleaned_data["url"])
        except WrongWebhookAddress as error:
            raise forms.ValidationError(str(error)) from None


@require_http_methods(["GET", "HEAD", "POST"])
@needs(ADMINISTER)
def new_webhook(request: HttpRequest) -> HttpResponse:
    form = NewEndpointForm(request.POST if request.method == "POST" else None)
    if not form.is_valid():
        status = 422 if form.is_bound else 200
        return render(request, "clients/new_webhook.html", {"form": form}, status=status)
    data = form.cleaned_data
    try:
        made = create_endpoint(data["api_key"], data["url"], statuses=data["statuses"])
    except EndpointExists as error:
        form.add_error("url", f"{error}.")
        return render(request, "clients/new_webhook.html", {"form": form}, status=422)
    reason = "Made in the dashboard"
    record_action(
        request.user, action="new-webhook", target=f"Webhook {made.pk}", reason=reason, done=True
    )
    messages.warning(request, f"Secret of this endpoint, shown only once: {secret_of(made)}")
    return redirect("webhook", made.pk)
