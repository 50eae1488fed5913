"""The forms of channels and rules."""

from datetime import timedelta
from functools import partial
from typing import Any
from zoneinfo import available_timezones

from django import forms
from django.http import QueryDict

from bots.names import check_readable_name
from bots.status import Platform
from dashboard.notifications.channels import check_thoroughly
from dashboard.notifications.records import NotificationChannel, NotificationRule
from dashboard.notifications.services import WrongAddress
from dashboard.overview.codes import AttentionCode, Severity

MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
MOST_MINUTES, MOST_HOURS = 7 * 24 * 60, 30 * 24
_time = partial(
    forms.TimeField,
    required=False,
    widget=forms.TimeInput(attrs={"type": "time"}, format="%H:%M"),
)


class ChannelForm(forms.Form):
    name = forms.CharField(
        max_length=80,
        validators=[check_readable_name],
        widget=forms.TextInput(attrs={"placeholder": "Operators in Slack"}),
    )
    url = forms.CharField(
        label="Address",
        max_length=2000,
        widget=forms.PasswordInput(
            attrs={"autocomplete": "off", "placeholder": "slack://… or https://…"}
        ),
        help_text="It is stored encrypted and not shown again.",
    )

    def __init__(self, given: QueryDict | None, *, channel: NotificationChannel | None):
        super().__init__(given, initial={"name": channel.name} if channel else None)
        self.channel = channel
        if channel is not None:
            self.fields["url"].required = False
            self.fields["url"].help_text = "Leave it empty to keep the one it has."

    def clean_name(self) -> str:
        name: str = self.cleaned_data["name"]
        same = NotificationChannel.objects.filter(name=name)
        if same.exclude(pk=self.channel.pk if self.channel else 0).exists():
            raise forms.ValidationError("There is a channel with this name.")
        return name

    def clean_url(self) -> str:
        url: str = self.cleaned_data["url"].strip()
        try:
            if url:
                check_thoroughly(url)
        except WrongAddress as error:
            raise forms.ValidationError(str(error)) from None
        return url


class RuleForm(forms.Form):
    name = forms.CharField(max_length=80, validators=[check_readable_name])
    severity = forms.ChoiceField(choices=[("", "Any"), *Severity.choices], required=False)
    codes = forms.MultipleChoiceField(
        label="What",
        choices=AttentionCode.choices,
        required=False,
        widget=forms.SelectMultiple(attrs={"size": 6}),
        help_text="Select none for all.",
    )
    platform = forms.ChoiceField(choices=[("", "All"), *Platform.choices], required=False)
    lasting = forms.IntegerField(
        label="After how many minutes", min_value=0, max_value=MOST_MINUTES, initial=5
    )
    channels = forms.MultipleChoiceField(
        required=False,
        widget=forms.SelectMultiple(attrs={"size": 3}),
        help_text="Select none for all, also for those that are added later.",
    )
    repeat = forms.IntegerField(
        label="Repeat every so many hours", required=False, min_value=1, max_value=MOST_HOURS,
        help_text="While it lasts. Leave empty for never.",
    )  # fmt: skip
    tell_resolved = forms.BooleanField(
        label="Also say when it is over", required=False, initial=True
    )
    quiet_from = _time(label="Quiet from", help_text="Messages wait until the quiet hours end.")
    quiet_until = _time(label="Quiet until")
    zone = forms.CharField(
        label="Zone of quiet hours",
        max_length=60,
        initial="UTC",
        help_text="Such as Europe/Berlin.",
    )
    urgent_anyway = forms.BooleanField(
        label="Send urgent ones also in quiet hours", required=False, initial=True
    )

    def __init__(self, given: QueryDict | None, *, rule: NotificationRule | None):
        super().__init__(given, initial=_initial(rule) if rule else None)
        self.rule = rule
        names = NotificationChannel.objects.order_by("name").values_list("pk", "name")
        self.fields["channels"].choices = list(names)  # type: ignore[attr-defined]
        if not names:
            self.fields["channels"].help_text = "None yet. The rule applies to those you add."

    def clean_name(self) -> str:
        name: str = self.cleaned_data["name"]
        same = NotificationRule.objects.filter(name=name)
        if same.exclude(pk=self.rule.pk if self.rule else 0).exists():
            raise forms.ValidationError("There is a rule with this name.")
        return name

    def clean_zone(self) -> str:
        zone: str = self.cleaned_data["zone"]
        if zone not in available_timezones():
            raise forms.ValidationError("This zone is not known. Use a name such as Europe/Berlin.")
        return zone

    def clean(self) -> dict[str, Any]:
        data = super().clean() or {}
        begin, end = data.get("quiet_from"), data.get("quiet_until")
        if (begin is None) != (end is None):
            self.add_error("quiet_until", "Quiet hours need both a start and an end.")
        elif begin is not None and begin == end:
            self.add_error("quiet_until", "Quiet hours cannot last all day. Disable the rule.")
        return data

    def fields_of_rule(self) -> dict[str, Any]:
        data, repeat = self.cleaned_data, self.cleaned_data["repeat"]
        return {
            **data,
            "lasting": data["lasting"] * MINUTE,
            "repeat": repeat * HOUR if repeat else None,
            "channels": [int(pk) for pk in data["channels"]],
        }


def _initial(rule: NotificationRule) -> dict[str, Any]:
    names = [field.name for field in rule._meta.concrete_fields]
    return {
        **{name: getattr(rule, name) for name in names},
        "lasting": rule.lasting // MINUTE,
        "repeat": rule.repeat // HOUR if rule.repeat else None,
    }
