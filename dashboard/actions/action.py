"""Operator actions: confirm, give a reason, run, audit.

The confirmation page shows each target in its current state. The action then applies to that
state only. It skips a target that has changed, which makes a late or repeated form harmless.
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

from api.schemas.bodies import CANNOT_BE_STORED
from bots.models import Bot
from core.administration.selections import forget_selection, kept_selection
from dashboard.audit import actor_of, record_action
from dashboard.permissions import refuse_without

MOST_TARGETS = 5_000
SHOWN = 100


class ReasonForm(forms.Form):
    reason = forms.CharField(
        max_length=500,
        widget=forms.TextInput(attrs={"autofocus": True}),
        help_text="Saved in the history with your name.",
    )


@dataclass(frozen=True, kw_only=True)
class Target:
    """`seen` is the version shown to the operator. A target with `why_not` is skipped."""

    key: str
    seen: str
    name: str
    link: str = ""
    effect: str = ""
    why_not: str = ""
    bot: Bot | None = None


@dataclass(frozen=True, kw_only=True)
class Order:
    """One target, as it was shown, with the operator's reason."""

    key: str
    seen: str
    reason: str
    actor: str
    data: Mapping[str, Any] = field(default_factory=dict)

    @property
    def number(self) -> int:
        """The key as a number; raises NotDone if it is not one."""
        if not self.key.isdecimal() or len(self.key) > 18:
            raise NotDone("it does not exist")
        return int(self.key)


class NotDone(Exception):
    """The action does not apply to this target. The message says why."""


@dataclass(frozen=True, kw_only=True)
class Action:
    name: str
    title: str
    heading: str  # the question on the page, with {} for the targets
    permission: str
    find: Callable[[QueryDict], list[Target]]
    do: Callable[[Order], bool | str]  # a text is shown once, and not recorded
    back: str
    noun: str
    thing: str = ""  # prefix of the target's key in the audit
    form: type[ReasonForm] = ReasonForm
    is_dangerous: bool = False
    deletes: bool = False  # the target has no page afterwards


def run_action(request: HttpRequest, action: Action) -> HttpResponse:
    refuse_without(action.permission, request)
    if request.method != "POST":
        return _ask(request, action, action.form(initial=_initial(request)))
    form = action.form(request.POST)
    if not form.is_valid():
        return _ask(request, action, form, status=422)
    done, skipped = _do_all(request, action, form.cleaned_data)
    forget_selection(request, request.GET.get("selection", ""))
    _tell(request, action, done=done, skipped=skipped)
    return redirect(_way_on(request, action))


# --- Back to the page before -------------------------------------------------------------------


def _way_back(request: HttpRequest, action: Action) -> str:
    """The page that linked here, if it is on this site."""
    given = request.GET.get("next", "")
    is_ours = given.startswith("/") and url_has_allowed_host_and_scheme(given, allowed_hosts=None)
    return given if is_ours else reverse(action.back)


def _way_on(request: HttpRequest, action: Action) -> str:
    """The way back, unless that page may belong to a deleted target."""
    back, fallback = _way_back(request, action), reverse(action.back)
    return fallback if action.deletes and back.partition("?")[0] != fallback else back


# --- Confirmation ------------------------------------------------------------------------------


def _initial(request: HttpRequest) -> dict[str, str]:
    return {name: request.GET.get(name, "") for name in request.GET if name != "item"}


def _given(request: HttpRequest) -> QueryDict | None:
    """The address with its items, which are kept in the session if there are many."""
    if "selection" not in request.GET:
        return request.GET
    items = kept_selection(request, request.GET["selection"])
    if items is None:
        return None
    given = request.GET.copy()
    given.setlist("item", items)
    return given


def _ask(
    request: HttpRequest, action: Action, form: ReasonForm, *, status: int = 200
) -> HttpResponse:
    given = _given(request)
    if given is None:
        messages.warning(request, "The selection is no longer kept. Select again.")
        return redirect(_way_back(request, action))
    targets = action.find(given)[:MOST_TARGETS]
    affected = [target for target in targets if not target.why_not]
    skipped = [target for target in targets if target.why_not]
    context = {
        "action": action,
        "heading": _heading(action, affected),
        "back": _way_back(request, action),
        "form": form,
        "affected": affected[:SHOWN],
        "more": len(affected[SHOWN:]),
        "count": len(affected),
        "most": MOST_TARGETS if len(targets) == MOST_TARGETS else None,
        "skipped": skipped[:SHOWN],
        "more_skipped": len(skipped[SHOWN:]),
        "skipped_count": len(skipped),
        "bots": _bots_by_status(affected),
        "targets": json.dumps([[target.key, target.seen] for target in affected]),
    }
    return render(request, "dashboard/confirm.html", context, status=status)


def _heading(action: Action, affected: list[Target]) -> str:
    if len(affected) == 1:
        return action.heading.format(affected[0].name)
    number = f"{len(affected)} " if affected else ""
    return action.heading.format(f"{number}{action.noun}s")


def _bots_by_status(affected: list[Target]) -> list[tuple[str, int]]:
    counted = Counter(target.bot.status for target in affected if target.bot is not None)
    return sorted(counted.items())


# --- Running -----------------------------------------------------------------------------------


def _do_all(request: HttpRequest, action: Action, data: Mapping[str, Any]) -> tuple[int, list[str]]:
    done, skipped = 0, []
    for key, seen in _targets(request):
        order = Order(
            key=key, seen=seen, reason=data["reason"], actor=actor_of(request.user), data=data
        )
        problem = _do_one(request, action, order)
        if problem:
            skipped.append(problem)
        else:
            done += 1
    return done, skipped


def _do_one(request: HttpRequest, action: Action, order: Order) -> str:
    """Why the action was not done; empty if it was."""
    try:
        result = action.do(order)
        problem = "" if result else "it changed after you opened the page"
        if isinstance(result, str):
            messages.warning(request, result)
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
    extra = {name: value for name, value in order.data.items() if name != "reason" and value}
    return ", ".join(f"{name}: {value}" for name, value in extra.items())


def _targets(request: HttpRequest) -> list[tuple[str, str]]:
    try:
        given = json.loads(request.POST.get("targets", ""))
        targets = [(str(key), str(seen)) for key, seen in given]
    except (ValueError, TypeError, RecursionError):
        raise BadRequest("The list of targets cannot be read") from None
    if len(targets) > MOST_TARGETS:
        raise BadRequest(f"At most {MOST_TARGETS} targets at once")
    if any(CANNOT_BE_STORED.search(key + seen) for key, seen in targets):
        raise BadRequest("The list of targets cannot be stored")
    return targets


def _tell(request: HttpRequest, action: Action, *, done: int, skipped: list[str]) -> None:
    words = f"{action.title}: done for {done} {action.noun}{pluralize(done)}"
    reasons = Counter(text.rstrip(".") for text in skipped)
    why = "; ".join(f"{text} ({n})" if n > 1 else text for text, n in reasons.most_common(3))
    if not done and len(skipped) == 1:
        messages.warning(request, f"{action.title}: not done, because {why}.")
    elif skipped:
        messages.warning(request, f"{words}, {len(skipped)} skipped: {why}.")
    else:
        messages.success(request, f"{words}.")
