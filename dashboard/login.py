"""Login, with a limit on failed attempts, logout, and change of one's own password."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from ipaddress import ip_address, ip_network
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.forms import AuthenticationForm, PasswordChangeForm
from django.contrib.auth.views import LoginView, LogoutView, PasswordChangeView
from django.core.exceptions import PermissionDenied, ValidationError
from django.db.models import Q
from django.db.models.functions import Now
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse, reverse_lazy

from dashboard.models import LoginFailure

WITHIN = timedelta(minutes=15)
FAILURES_OF_A_NAME = 10
FAILURES_OF_AN_ADDRESS = 50


@contextmanager
def counted_attempt(name: str, request: HttpRequest | None) -> Iterator[None]:
    """Check a password inside. An attempt whose check raises an error counts as failed."""
    # Counted before the password is checked: of many attempts at once, none passes the limit.
    attempt = LoginFailure.objects.create(username=name.lower()[:150], address=_address(request))
    if is_throttled(attempt):
        attempt.delete()
        raise ValidationError(
            "Too many failed attempts. Try again in 15 minutes.", code="throttled"
        )
    yield
    attempt.delete()


class ThrottledForm(AuthenticationForm):
    def clean(self) -> dict[str, Any]:
        with counted_attempt(self.cleaned_data.get("username") or "", self.request):
            return super().clean()


class ThrottledLogin(LoginView):
    authentication_form = ThrottledForm
    redirect_authenticated_user = True

    def form_invalid(self, form: AuthenticationForm) -> HttpResponse:
        response = super().form_invalid(form)
        if form.has_error("__all__", code="throttled"):
            response.status_code = 429
        return response


def admin_login(request: HttpRequest) -> HttpResponse:
    """Redirect to the only login page, whose limits then protect the admin too.

    It would send a user without staff status straight back here.
    """
    if request.user.is_authenticated and not request.user.is_staff:
        raise PermissionDenied("staff")
    return redirect(f"{reverse('login')}?{request.META['QUERY_STRING']}")


class Logout(LogoutView):
    """Logs out on POST only. A GET, from a link or after a login, goes to the overview."""

    http_method_names = ["get", "head", "post", "options"]

    def get(self, request: HttpRequest) -> HttpResponse:
        return redirect("overview")


class ThrottledPasswordForm(PasswordChangeForm):
    """Guesses of the old password count like those at the login."""

    def __init__(self, *given: Any, request: HttpRequest, **named: Any) -> None:
        super().__init__(*given, **named)
        self.request = request

    def clean_old_password(self) -> str:
        with counted_attempt(self.user.get_username(), self.request):
            return super().clean_old_password()


class ChangePassword(PasswordChangeView):
    """For every user. The admin's own page, which has no limit, redirects here."""

    form_class = ThrottledPasswordForm
    template_name = "registration/password.html"
    success_url = reverse_lazy("overview")

    def form_valid(self, form: Any) -> HttpResponse:
        messages.success(self.request, "Password changed. Other sessions of yours are logged out.")
        return super().form_valid(form)

    def form_invalid(self, form: Any) -> HttpResponse:
        response = super().form_invalid(form)
        if form.has_error("old_password", code="throttled"):
            response.status_code = 429
        return response

    def get_form_kwargs(self) -> dict[str, Any]:
        return {**super().get_form_kwargs(), "request": self.request}


def is_throttled(attempt: LoginFailure) -> bool:
    """Whether the name or the address of this attempt has failed too often before.

    The limit per name holds for every address. It can also lock out the owner for a while.
    """
    others = LoginFailure.objects.filter(at__gt=Now() - WITHIN).exclude(pk=attempt.pk)
    by_name = others.filter(username=attempt.username)[:FAILURES_OF_A_NAME].count()
    by_address = others.filter(address=attempt.address)[:FAILURES_OF_AN_ADDRESS].count()
    return by_name >= FAILURES_OF_A_NAME or by_address >= FAILURES_OF_AN_ADDRESS


def prune_login_failures() -> int:
    deleted, _ = LoginFailure.objects.filter(Q(at__lt=Now() - 4 * WITHIN)).delete()
    return deleted


def _address(request: HttpRequest | None) -> str:
    """The client's address, as the nearest trusted proxy reports it.

    Behind a proxy, all clients share the peer address: one client must not lock out the others.
    """
    if request is None:
        return ""
    peer: str = request.META.get("REMOTE_ADDR", "")
    forwarded = request.headers.get("X-Forwarded-For", "").rpartition(",")[2].strip()
    return (_is_trusted(peer) and _one_spelling(forwarded)) or peer


def _is_trusted(peer: str) -> bool:
    # A Unix socket has no peer address. Processes that may open it are trusted.
    trusted = settings.FORWARDED_ALLOW_IPS
    return (
        not peer
        or "*" in trusted
        or any(ip_address(peer) in ip_network(each, strict=False) for each in trusted)
    )


def _one_spelling(text: str) -> str:
    """The address in canonical form; empty if it is invalid or has a zone id."""
    try:
        ip = ip_address(text)
    except ValueError:
        return ""
    return "" if "%" in text else str(ip)
