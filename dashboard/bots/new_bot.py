"""The form that requests a bot."""

import json
import uuid
from hashlib import sha256
from typing import Any

from django import forms
from django.contrib import messages
from django.core.cache import cache
from django.core.validators import RegexValidator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.template.loader import render_to_string
from django.utils.safestring import SafeString, mark_safe
from django.views.decorators.http import require_http_methods

from bots.clients import OPERATORS
from bots.meetings import WrongAddress, platform_of
from bots.models import HIGHEST_PRIORITY_NUMBER, Bot, Client
from bots.names import DISPLAY_NAME, WRONG_DISPLAY_NAME
from bots.status import BotStatus, Platform
from core.permissions import OPERATE
from dashboard.audit import actor_of, record_action
from dashboard.permissions import needs
from pool.request import BotRequest, request_bot_once
from pool.sharing.quota import OverQuota


class NewBotForm(forms.Form):
    meeting_url = forms.CharField(
        label="Meeting address",
        max_length=2000,
        widget=forms.TextInput(attrs={"placeholder": "https://meet.google.com/abc-defg-hij"}),
    )
    platform = forms.ChoiceField(
        choices=[("", "Detect from address"), *Platform.choices], required=False
    )
    display_name = forms.CharField(
        label="Display name",
        max_length=255,
        initial="Notetaker",
        validators=[RegexValidator(DISPLAY_NAME, WRONG_DISPLAY_NAME)],
    )
    priority = forms.IntegerField(
        min_value=0,
        max_value=HIGHEST_PRIORITY_NUMBER,
        initial=100,
        help_text="Lower numbers go first.",
    )

    def clean(self) -> dict[str, Any]:
        data = super().clean() or {}
        given = Platform(data["platform"]) if data.get("platform") else None
        if data.get("meeting_url"):
            try:
                data["platform"] = platform_of(data["meeting_url"], given=given).value
            except WrongAddress as error:
                self.add_error("meeting_url", str(error))
        return data


def new_form_key() -> str:
    """Names one form that is shown to a user: a hidden field, sent with it."""
    return uuid.uuid4().hex


def new_bot_fields() -> SafeString:
    """The fields of an empty form, without its key. Cached: they are the same for every user."""
    html = cache.get_or_set(
        "new-bot-fields", lambda: render_to_string("fields.html", {"form": NewBotForm()})
    )
    return mark_safe(str(html))  # noqa: S308 (rendered by a template)


@require_http_methods(["GET", "HEAD", "POST"])
@needs(OPERATE)
def new_bot(request: HttpRequest) -> HttpResponse:
    if request.method != "POST":  # the form was sent after its session ended
        return _shown(request, NewBotForm(), key=new_form_key())
    form, key = NewBotForm(request.POST), request.POST.get("form_key", "")
    if not form.is_valid():
        return _shown(request, form, key=key, status=422)
    client, _ = Client.objects.get_or_create(name=OPERATORS)
    asked = BotRequest(
        **form.cleaned_data,
        client_id=client.pk,
        request_key=_request_key(request, form.cleaned_data, key=key),
    )
    try:
        bot, is_new = request_bot_once(asked, actor=actor_of(request.user))
    except OverQuota as refusal:
        form.add_error(None, str(refusal))
        return _shown(request, form, key=key, status=422)
    if is_new:
        _say_sent(request, bot)
    else:
        messages.info(request, f"{bot} was already sent. Open the form again to send another one.")
    return redirect("bot", bot.pk)


def _shown(request: HttpRequest, form: NewBotForm, *, key: str, status: int = 200) -> HttpResponse:
    return render(
        request,
        "bots/new_bot.html",
        {"form": form, "form_key": key or new_form_key()},
        status=status,
    )


def _request_key(request: HttpRequest, data: dict[str, Any], *, key: str) -> str:
    """The same if a form is sent twice, by a double click or after going back. Another one if it
    was changed in between: that is another request."""
    if not key:
        return ""
    sent = json.dumps([request.user.pk, key, data], sort_keys=True)
    return f"form:{sha256(sent.encode()).hexdigest()}"


def _say_sent(request: HttpRequest, bot: Bot) -> None:
    record_action(
        request.user,
        action="new-bot",
        target=str(bot),
        reason="Requested in the dashboard",
        done=True,
    )
    waits = bot.status == BotStatus.QUEUED
    messages.success(request, f"{bot} is waiting for a slot." if waits else f"{bot} is starting.")
