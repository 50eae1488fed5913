from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.auth.models import User
from django.db.models import OuterRef, QuerySet, Subquery
from django.http import HttpRequest

from api.keys import create_api_key, revoke_api_key
from api.webhooks.addresses import WrongWebhookAddress, check_webhook_address
from api.webhooks.signatures import secret_of
from bots.models import ApiKey, Client, RequestName, Webhook, WebhookDelivery, WebhookEndpoint
from bots.names import check_readable_name
from core.admin import ReadOnlyAdmin
from core.administration.filters import by_time
from core.permissions import ADMINISTER
from dashboard.audit import record_action
from dashboard.clients.addresses import webhook_address
from dashboard.models import LoginFailure, OperatorAction, PoolSample
from dashboard.notifications.records import Message, NotificationChannel


class ApiKeyForm(forms.ModelForm):
    def clean_name(self) -> str:
        name: str = self.cleaned_data["name"]
        check_readable_name(name)
        in_use = ApiKey.objects.filter(name=name, revoked_at=None).exclude(pk=self.instance.pk)
        if in_use.exists():
            raise forms.ValidationError("A key with this name is in use.")
        return name

    webhook_url = forms.CharField(
        max_length=2000,
        required=False,
        label="Webhook address",
        help_text="Where to send each change of status of this key's bots. Its secret is shown "
        "once. The page Webhooks has more: filters, rotation, deliveries.",
    )

    def clean_webhook_url(self) -> str:
        url: str = self.cleaned_data["webhook_url"]
        try:
            return check_webhook_address(url) if url else ""
        except WrongWebhookAddress as error:
            raise forms.ValidationError(str(error)) from None


@admin.register(ApiKey)
class ApiKeyAdmin(admin.ModelAdmin):
    """Like `manage.py create_api_key`: a key is shown once, and can be revoked but not deleted."""

    form = ApiKeyForm
    list_display = ("name", "role", "client", "created_at", "last_used_at", "revoked_at")
    list_select_related = ("client",)
    list_filter = ("role", ("revoked_at", by_time(set_as="Revoked", empty_as="In use")))
    search_fields = ("name",)
    actions = ("revoke",)

    def get_fields(self, request: HttpRequest, obj: ApiKey | None = None) -> tuple[str, ...]:
        """The first endpoint can be made with the key."""
        own = ("name", "role", "client", "created_at", "last_used_at", "revoked_at")
        return own if obj else ("name", "role", "client", "webhook_url")

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        """A key stays with its client: the client's bots would follow it otherwise."""
        times = ("created_at", "last_used_at", "revoked_at")
        return ("client", *times) if obj else times

    def save_model(self, request: HttpRequest, obj: ApiKey, form: ApiKeyForm, change: bool) -> None:
        if change:
            obj.save(update_fields=[name for name in form.changed_data if name != "webhook_url"])
            return
        url = form.cleaned_data["webhook_url"]
        owner = obj.client.name if obj.client else ""
        key = create_api_key(name=obj.name, role=obj.role, webhook_url=url, client=owner)
        obj.pk = ApiKey.objects.get(name=obj.name, revoked_at=None).pk
        text = f"API key for {obj.name}, shown only once: {key}"
        self.message_user(request, text, level=messages.WARNING)
        for endpoint in WebhookEndpoint.objects.filter(api_key=obj):
            text = f"Secret of its webhooks, shown only once: {secret_of(endpoint)}"
            self.message_user(request, text, level=messages.WARNING)
        self._record(request, action="new-key", key=obj)

    @admin.action(description="Revoke the selected keys", permissions=["change"])
    def revoke(self, request: HttpRequest, queryset: QuerySet[ApiKey]) -> None:
        revoked = [key for key in queryset if revoke_api_key(key)]
        for key in revoked:
            self._record(request, action="revoke-key", key=key)
        self.message_user(request, f"Keys revoked: {len(revoked)}.")

    def _record(self, request: HttpRequest, *, action: str, key: ApiKey) -> None:
        reason = "Done in the admin"
        record_action(request.user, action=action, target=key.name, reason=reason, done=True)

    def has_delete_permission(self, request: HttpRequest, obj: ApiKey | None = None) -> bool:
        return False  # the history refers to keys by name


@admin.register(Client)
class ClientAdmin(ReadOnlyAdmin):
    """The page Clients changes limits, with a reason."""

    list_display = ["name", "max_bots", "max_waiting", "share", "created_at"]
    search_fields = ["name"]
    ordering = ["name"]


@admin.register(RequestName)
class RequestNameAdmin(ReadOnlyAdmin):
    list_display = ["name", "kind", "api_key", "bot_id", "created_at"]
    list_filter = ["kind"]
    search_fields = ["=name", "=bot__id"]
    list_select_related = ["api_key"]
    # The hash of a request whose only unknown part is a passcode soon gives it away.
    exclude = ["body_hash"]
    ordering = ["-pk"]


@admin.display(description="address")
def _whole_address(row: Webhook | WebhookEndpoint) -> str:
    return webhook_address(row.url, may_administer=True)


@admin.display(description="address")
def _host_only(row: Webhook | WebhookEndpoint) -> str:
    return webhook_address(row.url, may_administer=False)


class WithAddress(ReadOnlyAdmin):
    """Shows `url` as the dashboard does."""

    exclude = ["url"]

    def get_list_display(self, request: HttpRequest) -> list[Any]:
        shown = super().get_list_display(request)
        return [self._address(request) if name == "url" else name for name in shown]

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[Any]:
        return [self._address(request)]

    def _address(self, request: HttpRequest) -> Any:
        return _whole_address if request.user.has_perm(ADMINISTER) else _host_only


@admin.register(Webhook)
class WebhookAdmin(WithAddress):
    list_display = ["bot_id", "url", "is_open"]
    search_fields = ["=bot__id"]
    ordering = ["-pk"]


@admin.register(WebhookEndpoint)
class WebhookEndpointAdmin(WithAddress):
    list_display = ["url", "api_key", "is_named", "failing_since", "disabled_at"]
    list_filter = [("disabled_at", by_time(set_as="Disabled", empty_as="Enabled"))]
    list_select_related = ["api_key"]
    ordering = ["-pk"]


@admin.register(WebhookDelivery)
class WebhookDeliveryAdmin(ReadOnlyAdmin):
    list_display = ("event", "attempts", "last_attempt_at", "last_answer", "delivered_at", "due_at")
    list_filter = (
        ("delivered_at", by_time(set_as="Delivered", empty_as="Not delivered")),
        ("due_at", by_time(set_as="To be tried", empty_as="Over")),
    )
    list_select_related = ("event",)
    search_fields = ("=webhook__bot__id",)
    ordering = ("-pk",)


@admin.register(OperatorAction)
class OperatorActionAdmin(ReadOnlyAdmin):
    list_display = ["at", "username", "action", "target", "reason", "done", "outcome"]
    list_filter = ["action", "done"]
    search_fields = ["=username", "target", "reason"]
    ordering = ["-pk"]


@admin.register(PoolSample)
class PoolSampleAdmin(ReadOnlyAdmin):
    list_display = ["minute", "platform", "idle", "deploying", "busy", "stopping", "error"]
    list_filter = ["platform"]
    ordering = ["-pk"]


@admin.register(LoginFailure)
class LoginFailureAdmin(ReadOnlyAdmin):
    """Shows and finds only names of users: others may be passwords in the wrong field."""

    list_display = ["at", "name", "address"]
    search_fields = ["=user_name", "=address"]
    ordering = ["-pk"]
    exclude = ["username"]
    readonly_fields = ["name"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[LoginFailure]:
        users = User.objects.filter(username__iexact=OuterRef("username"))
        failures: QuerySet[LoginFailure] = super().get_queryset(request)
        return failures.annotate(user_name=Subquery(users.values("username")[:1]))

    @admin.display(ordering="user_name")
    def name(self, failure: LoginFailure) -> str:
        return failure.user_name or "(no such user)"  # type: ignore[attr-defined]


@admin.register(NotificationChannel)
class NotificationChannelAdmin(ReadOnlyAdmin):
    """The page Notifications changes channels. The sealed address is not shown."""

    list_display = ["name", "kind", "shown", "enabled", "sent_at", "failing_since"]
    exclude = ["sealed_url"]
    ordering = ["name"]


@admin.register(Message)
class MessageAdmin(ReadOnlyAdmin):
    list_display = ["created_at", "channel", "kind", "status", "title", "attempts", "error"]
    list_filter = ["status", "kind"]
    list_select_related = ["channel"]
    ordering = ["-pk"]
