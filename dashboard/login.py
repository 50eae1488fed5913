"""Logging in, with a limit to how often a password can be guessed."""

from datetime import timedelta
from ipaddress import ip_address, ip_network
from typing import Any

from django.conf import settings
from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.views import LoginView, LogoutView
from django.core.exceptions import ValidationError
from django.db.models import Q
from django.db.models.functions import Now
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from dashboard.models import LoginFailure

WITHIN = timedelta(minutes=15)
FAILURES_OF_A_NAME = 10
FAILURES_OF_AN_ADDRESS = 50


class ThrottledForm(AuthenticationForm):
    def clean(self) -> dict[str, Any]:
        name = (self.cleaned_data.get("username") or "").lower()
        address = _address(self.request)
        if is_throttled(name=name, address=address):
            raise ValidationError(
                "Too many failed attempts. Try again in a quarter of an hour.", code="throttled"
            )
        try:
            return super().clean()
        except ValidationError:
            LoginFailure.objects.create(username=name[:150], address=address)
            raise


class ThrottledLogin(LoginView):
    authentication_form = ThrottledForm
    redirect_authenticated_user = True

    def form_invalid(self, form: AuthenticationForm) -> HttpResponse:
        response = super().form_invalid(form)
        if form.has_error("__all__", code="throttled"):
            response.status_code = 429
        return response


class Logout(LogoutView):
    """By its button only: a link to it, or a login on the way to it, logs nobody out."""

    http_method_names = ["get", "head", "post", "options"]

    def get(self, request: HttpRequest) -> HttpResponse:
        return redirect("overview")


def is_throttled(*, name: str, address: str) -> bool:
    """The limit of a name keeps guessers out wherever they come from; it also keeps its owner
    out, for a while, which is the lesser evil."""
    lately = LoginFailure.objects.filter(at__gt=Now() - WITHIN)
    by_name = lately.filter(username=name)[:FAILURES_OF_A_NAME].count()
    by_address = lately.filter(address=address)[:FAILURES_OF_AN_ADDRESS].count()
    return by_name >= FAILURES_OF_A_NAME or by_address >= FAILURES_OF_AN_ADDRESS


def prune_login_failures() -> int:
    deleted, _ = LoginFailure.objects.filter(Q(at__lt=Now() - 4 * WITHIN)).delete()
    return deleted


def _address(request: HttpRequest | None) -> str:
    """Of the client, as the nearest proxy saw it: behind one all connect from the same address,
    and a stranger's failures must not keep everybody out."""
    if request is None:
        return ""
    peer: str = request.META.get("REMOTE_ADDR", "")
    told = request.headers.get("X-Forwarded-For", "").rpartition(",")[2].strip()
    return (_is_trusted(peer) and _one_spelling(told)) or peer


def _is_trusted(peer: str) -> bool:
    # A socket of the host has no address: whoever may open it is trusted.
    trusted = settings.FORWARDED_ALLOW_IPS
    return (
        not peer
        or "*" in trusted
        or any(ip_address(peer) in ip_network(each, strict=False) for each in trusted)
    )


def _one_spelling(text: str) -> str:
    """Of an address; empty for what is none, or has more to it than an address."""
    try:
        ip = ip_address(text)
    except ValueError:
        return ""
    return "" if "%" in text else str(ip)
