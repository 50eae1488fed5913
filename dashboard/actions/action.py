"""Actions of operators: each asks first, says what it will do, takes a reason and is audited.

The page that asks shows each target as it is at that moment. What is done then is done to the
target as it was shown: one that has changed meanwhile is left alone, so that sending the form
twice, or late, harms nobody.
"""

import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from django import forms
from django.contrib import messages
from django.core.exceptions import BadRequest
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.template.defaultfilters import pluralize
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme

from bots.models import Bot
from dashboard.audit import actor_of, record_action
from dashboard.permissions import refuse_without

MOST_TARGETS = 5_000
SHOWN = 100


class ReasonForm(forms.Form):
    reason = forms.CharField(
        max_length=500,
        widget=forms.TextInput(attrs={"autofocus": True}),
        help_text="Kept in the history, with your name.",
    )


@dataclass(frozen=True, kw_only=True)
class Target:
    """`seen` is the version that is acted on. `why_not`: nothing will be done to it, and why."""

    key: str
    seen: str
    name: str
    link: str = ""
    effect: str = ""
    why_not: str = ""
    bot: Bot | None = None


@dataclass(frozen=True, kw_only=True)
class Order:
    """One target, as it was shown, and what the operator said."""

    key: str
    seen: str
    reason: str
    actor: str
    data: Mapping[str, Any] = field(default_factory=dict)

    @property
    def number(self) -> int:
        """The key, where it is a number."""
        if not self.key.isdecimal() or len(self.key) > 18:
            raise NotDone("there is no such thing")
        return int(self.key)


class NotDone(Exception):
    """The action could not be done to this target; says why."""


@dataclass(frozen=True, kw_only=True)
class Action:
    name: str
    title: str
    permission: str
    find: Callable[[QueryDict], list[Target]]
    do: Callable[[Order], bool]
    back: str
    noun: str  # what it is done to, for "3 slots will be changed"
    thing: str = ""  # what stands before a target's key in the audit
    form: type[ReasonForm] = ReasonForm
    is_dangerous: bool = False
    deletes: bool = False  # what it is done to has no page afterwards


def run_action(request: HttpRequest, action: Action) -> HttpResponse:
    refuse_without(action.permission, request)
    if request.method != "POST":
        return _ask(request, action, action.form(initial=_initial(request)))
    form = action.form(request.POST)
    if not form.is_valid():
        return _ask(request, action, form, status=422)
    done, left = _do_all(request, action, form.cleaned_data)
    _tell(request, action, done=done, left=left)
    return redirect(_way_on(request, action))


# --- Where one came from -----------------------------------------------------------------------


def _way_back(request: HttpRequest, action: Action) -> str:
    """The page that led here, if it is one of ours."""
    given = request.GET.get("next", "")
    is_ours = given.startswith("/") and url_has_allowed_host_and_scheme(given, allowed_hosts=None)
    return given if is_ours else reverse(action.back)


def _way_on(request: HttpRequest, action: Action) -> str:
    """The same, unless it may be the page of what was deleted."""
    back, fallback = _way_back(request, action), reverse(action.back)
    return fallback if action.deletes and back.partition("?")[0] != fallback else back


# --- Asking ------------------------------------------------------------------------------------


def _initial(request: HttpRequest) -> dict[str, str]:
    return {name: request.GET.get(name, "") for name in request.GET if name != "item"}


def _ask(
    request: HttpRequest, action: Action, form: ReasonForm, *, status: int = 200
) -> HttpResponse:
    targets = action.find(request.GET)[:MOST_TARGETS]
    affected = [target for target in targets if not target.why_not]
    context = {
        "action": action,
        "back": _way_back(request, action),
        "form": form,
        "affected": affected[:SHOWN],
        "count": len(affected),
        "left_alone": [target for target in targets if target.why_not][:SHOWN],
        "left_count": len(targets) - len(affected),
        "bots": _bots_by_status(affected),
        "targets": json.dumps([[target.key, target.seen] for target in affected]),
    }
    return render(request, "dashboard/confirm.html", context, status=status)


def _bots_by_status(affected: list[Target]) -> list[tuple[str, int]]:
    """Which bots are in the way, in numbers."""
    counted = Counter(target.bot.status for target in affected if target.bot is not None)
    return sorted(counted.items())


# --- Doing -------------------------------------------------------------------------------------


def _do_all(request: HttpRequest, action: Action, data: Mapping[str, Any]) -> tuple[int, list[str]]:
    done, left = 0, []
    for key, seen in _targets(request):
        order = Order(
            key=key, seen=seen, reason=data["reason"], actor=actor_of(request.user), data=data
        )
        problem = _do_one(request, action, order)
        if problem:
            left.append(problem)
        else:
            done += 1
    return done, left


def _do_one(request: HttpRequest, action: Action, order: Order) -> str:
    """What stood in the way; empty if it was done."""
    try:
        problem = "" if action.do(order) else "it has changed since it was shown"
    except NotDone as error:
        problem = str(error)
    record_action(
        request.user,
        action=action.name,
        target=f"{action.thing}{order.key}"[:200],
        reason=order.reason,
        done=not problem,
        outcome=problem or _extra(order),
    )
    return problem


def _extra(order: Order) -> str:
    said = {name: value for name, value in order.data.items() if name != "reason" and value}
    return ", ".join(f"{name}: {value}" for name, value in said.items())


def _targets(request: HttpRequest) -> list[tuple[str, str]]:
    try:
        given = json.loads(request.POST.get("targets", ""))
        return [(str(key), str(seen)) for key, seen in given][:MOST_TARGETS]
    except (ValueError, TypeError):
        raise BadRequest("The list of targets cannot be read") from None


def _tell(request: HttpRequest, action: Action, *, done: int, left: list[str]) -> None:
    words = f"{action.title}: {done} {action.noun}{pluralize(done)} done"
    if left:
        why = "; ".join(f"{text} ({n})" for text, n in Counter(left).most_common(3))
        messages.warning(request, f"{words}, {len(left)} left alone: {why}.")
    else:
        messages.success(request, f"{words}.")
