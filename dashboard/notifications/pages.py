"""The pages of notifications: channels, rules and what is open, and the log."""

from typing import Any

from django.contrib import messages
from django.db.models import Max
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_http_methods, require_safe

from api.webhooks.signatures import secret_of
from core.permissions import ADMINISTER, OPERATE, VIEW
from dashboard.audit import record_action
from dashboard.live import live_page, version_of
from dashboard.notifications.channels import save_channel
from dashboard.notifications.forms import ChannelForm, RuleForm
from dashboard.notifications.records import (
    Condition,
    Message,
    Notice,
    NotificationChannel,
    NotificationRule,
)
from dashboard.notifications.services import SERVICES
from dashboard.paging import older
from dashboard.permissions import needs

MOST_SHOWN = 200
_REASON = "Done in the dashboard"


@require_safe
@needs(VIEW)
def notifications(request: HttpRequest) -> HttpResponse:
    channels = NotificationChannel.objects.order_by("name")
    rules = NotificationRule.objects.order_by("pk")
    opened = Condition.objects.filter(resolved_at=None).order_by("first_seen_at")[:MOST_SHOWN]
    notices = Notice.objects.filter(condition__resolved_at=None).order_by("pk")[:MOST_SHOWN]

    def live() -> dict[str, Any]:
        names = dict(channels.values_list("pk", "name"))
        return {
            "channels": list(channels),
            "rules": [(rule, _names(rule, names)) for rule in rules],
            "conditions": list(opened.annotate(told_at=Max("notices__at"))),
        }

    return live_page(
        request,
        template="notifications/notifications.html",
        version=version_of(channels, rules, opened, notices),
        live=live,
    )


def _names(rule: NotificationRule, names: dict[int, str]) -> list[str]:
    return [names.get(pk, "a deleted channel") for pk in rule.channels]


@require_safe
@needs(VIEW)
def notification_log(request: HttpRequest) -> HttpResponse:
    page = older(Message.objects.select_related("channel"), request.GET)

    def live() -> dict[str, Any]:
        shown, before = page.shown()
        return {"messages_sent": shown, "before": before}

    return live_page(
        request,
        template="notifications/log.html",
        version=version_of(page.rows),
        live=live,
    )


# --- Forms --------------------------------------------------------------------------------------


@require_http_methods(["GET", "HEAD", "POST"])
@needs(ADMINISTER)
def new_channel(request: HttpRequest) -> HttpResponse:
    return _channel_form(request, None)


@require_http_methods(["GET", "HEAD", "POST"])
@needs(ADMINISTER)
def change_channel(request: HttpRequest, pk: int) -> HttpResponse:
    return _channel_form(request, get_object_or_404(NotificationChannel, pk=pk))


def _channel_form(request: HttpRequest, channel: NotificationChannel | None) -> HttpResponse:
    form = ChannelForm(request.POST if request.method == "POST" else None, channel=channel)
    if not form.is_valid():
        context = {"form": form, "channel": channel, "services": SERVICES}
        status = 422 if form.is_bound else 200
        return render(request, "notifications/channel.html", context, status=status)
    made = channel or NotificationChannel()
    save_channel(made, name=form.cleaned_data["name"], url=form.cleaned_data["url"])
    _record(request, action="change-channel" if channel else "new-channel", target=f"{made.name}")
    if channel is None:
        _welcome(request, made)
    return redirect("notifications")


def _welcome(request: HttpRequest, channel: NotificationChannel) -> None:
    if channel.kind == NotificationChannel.Kind.WEBHOOK:
        secret = secret_of(channel)
        messages.warning(request, f"Secret of this webhook, shown only once: {secret}")
    messages.success(request, f"{channel.name} is ready. Send a test to be sure.")


@require_http_methods(["GET", "HEAD", "POST"])
@needs(OPERATE)
def new_rule(request: HttpRequest) -> HttpResponse:
    return _rule_form(request, None)


@require_http_methods(["GET", "HEAD", "POST"])
@needs(OPERATE)
def change_rule(request: HttpRequest, pk: int) -> HttpResponse:
    return _rule_form(request, get_object_or_404(NotificationRule, pk=pk))


def _rule_form(request: HttpRequest, rule: NotificationRule | None) -> HttpResponse:
    form = RuleForm(request.POST if request.method == "POST" else None, rule=rule)
    if not form.is_valid():
        status = 422 if form.is_bound else 200
        context = {"form": form, "rule": rule}
        return render(request, "notifications/rule.html", context, status=status)
    fields = form.fields_of_rule()
    if rule is None:
        rule = NotificationRule.objects.create(**fields)
        _record(request, action="new-rule", target=rule.name)
    else:
        NotificationRule.objects.filter(pk=rule.pk).update(**fields)
        changed = ", ".join(form.changed_data)
        _record(request, action="change-rule", target=rule.name, outcome=changed)
    messages.success(request, f"The rule {fields['name']} is saved.")
    return redirect("notifications")


def _record(request: HttpRequest, *, action: str, target: str, outcome: str = "") -> None:
    record_action(
        request.user, action=action, target=target, reason=_REASON, done=True, outcome=outcome
    )
