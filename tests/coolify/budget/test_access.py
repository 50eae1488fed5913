"""A token that Coolify refused is not tried again and again."""

from datetime import timedelta

import pytest
from django.db.models.functions import Now

from coolify.budget import access
from coolify.budget.access import allow_access, fingerprint, refusals
from coolify.budget.governor import Governor
from coolify.client import Coolify
from coolify.client.calls import Call, CallClass
from coolify.client.errors import (
    AbilityMissing,
    AccessRefused,
    ApiDisabled,
    BudgetExhausted,
    CoolifyError,
    NotFound,
    RoleMissing,
    Unauthenticated,
)
from coolify.models import Budget, Refusal
from core.clock import database_now
from tests.concurrency import at_once, then_meet

pytestmark = pytest.mark.django_db

UNKNOWN = {"message": "Unauthenticated."}
DISABLED = {"success": True, "message": "API is disabled."}
NO_DEPLOY = {"message": "Missing required permissions: deploy"}
NO_ROLE = {"message": "Missing required team role."}


def client_of(scripted, token="1|secret"):
    return Coolify(scripted.url, token, gate=Governor(token=fingerprint(scripted.url, token)))


@pytest.fixture
def client(scripted):
    return client_of(scripted)


def test_after_a_401_nothing_is_sent_any_more(scripted, client):
    scripted.answers({"message": "Unauthenticated."}, status=401)
    with pytest.raises(Unauthenticated):
        client.deployments()
    for call in (client.deployments, lambda: client.stop("app-1")):
        with pytest.raises(AccessRefused, match="does not accept the token"):
            call()
    assert len(scripted.asked) == 1


@pytest.mark.parametrize(("answer", "error"), [(NO_DEPLOY, AbilityMissing), (NO_ROLE, RoleMissing)])
def test_a_missing_ability_stops_only_the_calls_that_need_it(scripted, client, answer, error):
    scripted.answers(answer, status=403)
    scripted.answers([])
    with pytest.raises(error):
        client.stop("app-1")
    with pytest.raises(AccessRefused):
        client.start("app-1")
    assert client.deployments() == []


def test_another_token_is_tried(scripted, client):
    scripted.answers({"message": "Unauthenticated."}, status=401)
    scripted.answers([])
    with pytest.raises(Unauthenticated):
        client.deployments()
    assert client_of(scripted, token="2|other").deployments() == []


def test_an_operator_allows_a_new_try(scripted, client):
    scripted.answers({"message": "Unauthenticated."}, status=401)
    scripted.answers([])
    with pytest.raises(Unauthenticated):
        client.deployments()
    assert allow_access() == 1
    assert client.deployments() == []
    assert allow_access() == 0


def test_a_disabled_api_is_tried_again_by_one_call_at_a_time(scripted, client):
    scripted.answers(DISABLED, status=403)
    with pytest.raises(ApiDisabled):
        client.deployments()
    with pytest.raises(AccessRefused):
        client.deployments()
    Refusal.objects.update(probe_at=Now() - timedelta(seconds=1))
    with pytest.raises(ApiDisabled):
        client.deployments()
    with pytest.raises(AccessRefused) as refused:
        client.deployments()
    assert refused.value.retry_after > 5  # each pause is longer than the one before
    assert len(scripted.asked) == 2


def test_a_disabled_api_is_tried_again_every_30_s_at_least(scripted, client):
    scripted.answers(DISABLED, status=403)
    pauses = []
    for _ in range(6):
        with pytest.raises(ApiDisabled):
            client.deployments()
        pauses.append((Refusal.objects.get().probe_at - database_now()).total_seconds())
        probe_is_due()
    assert [round(pause, -1) or 5 for pause in pauses] == [5, 10, 20, 30, 30, 30]


@pytest.mark.parametrize("refusal", [(DISABLED, 403), (UNKNOWN, 401)])
def test_a_try_that_coolify_does_not_answer_puts_off_the_next_one_for_5_s_only(
    scripted, client, refusal
):
    """It shows nothing: the API may be enabled, or the token known, since the first refusal."""
    answer, status = refusal
    scripted.answers(answer, status=status)
    scripted.answers({"message": "Server Error"}, status=500)
    with pytest.raises((ApiDisabled, Unauthenticated)):
        client.deployments()
    for _ in range(4):
        probe_is_due()
        with pytest.raises(CoolifyError):
            client.deployments()
        assert Refusal.objects.get().probe_at - database_now() <= timedelta(seconds=5)


@pytest.mark.parametrize("refusal", [(DISABLED, 403), (UNKNOWN, 401)])
def test_a_try_that_the_budget_does_not_send_puts_off_the_next_one_for_5_s_only(
    scripted, client, refusal
):
    answer, status = refusal
    scripted.answers(answer, status=status)
    with pytest.raises((ApiDisabled, Unauthenticated)):
        client.deployments()
    probe_is_due()
    Budget.objects.update(paused_until=Now() + timedelta(minutes=1))
    with pytest.raises(BudgetExhausted, match="accepts no more calls"):
        client.deployments()
    assert Refusal.objects.get().probe_at - database_now() <= timedelta(seconds=5)
    assert len(scripted.asked) == 1


def test_of_calls_that_are_refused_at_once_only_a_try_makes_the_next_pause_longer(scripted, client):
    """Several calls may be on their way when the API is disabled."""
    call = Call("deployments", CallClass.OBSERVE, "GET", "/deployments")
    token = fingerprint(scripted.url, "1|secret")
    for _ in range(3):
        access.note_answer(call, ApiDisabled("off"), token, was_probe=False)
    assert Refusal.objects.get().probe_at - database_now() <= timedelta(seconds=5)


def test_a_try_that_is_refused_for_another_reason_shows_that_reason(scripted, client):
    scripted.answers(DISABLED, status=403)
    scripted.answers(UNKNOWN, status=401)
    with pytest.raises(ApiDisabled):
        client.deployments()
    probe_is_due()
    with pytest.raises(Unauthenticated):
        client.deployments()
    refusal = Refusal.objects.get()
    assert "token" in refusal.reason
    assert refusal.probe_at - database_now() > timedelta(minutes=9)


@pytest.mark.django_db(transaction=True)
def test_of_two_calls_that_find_a_try_due_one_is_sent(monkeypatch):
    """Both have read that it is due before one of them takes it."""
    Refusal.objects.create(
        token="t", ability=access.EVERYTHING, probe_at=Now() - timedelta(seconds=1)
    )
    monkeypatch.setattr(access, "database_now", then_meet(access.database_now))
    call = Call("deployments", CallClass.OBSERVE, "GET", "/deployments")
    results = at_once([lambda: access.require_access(call, "t")] * 2)
    assert sorted(type(each).__name__ for each in results) == ["AccessRefused", "bool"]


def test_an_api_that_is_enabled_again_is_used_again(scripted, client):
    scripted.answers(DISABLED, status=403)
    scripted.answers([])
    with pytest.raises(ApiDisabled):
        client.deployments()
    Refusal.objects.update(probe_at=Now() - timedelta(seconds=1))
    assert client.deployments() == []
    assert client.deployments() == []


# --- A refusal that is the token's fault ends by itself, too, if it was false ---


def probe_is_due():
    Refusal.objects.update(probe_at=Now() - timedelta(seconds=1))


def refused_once(scripted, call, answer, *, status, then=None, then_status=200):
    scripted.answers(answer, status=status)
    if then is not None:
        scripted.answers(then, status=then_status)
    with pytest.raises((Unauthenticated, AbilityMissing, RoleMissing)):
        call()


def test_a_refused_token_is_tried_once_in_ten_minutes(scripted, client):
    refused_once(scripted, client.deployments, UNKNOWN, status=401)
    for expected in (1, 2, 3):
        [refusal] = Refusal.objects.all()
        left = refusal.probe_at - database_now()
        assert timedelta(minutes=9) < left <= timedelta(minutes=10)
        for _ in range(3):
            with pytest.raises(AccessRefused) as refused:
                client.deployments()
            assert refused.value.retry_after <= 60
        assert len(scripted.asked) == expected
        probe_is_due()
        with pytest.raises(Unauthenticated):
            client.deployments()


def test_a_coolify_that_was_restored_is_used_again(scripted, client):
    refused_once(scripted, client.deployments, UNKNOWN, status=401, then=[])
    probe_is_due()
    assert client.deployments() == []
    assert not Refusal.objects.exists()


def test_an_answer_about_something_else_shows_that_the_token_is_accepted(scripted, client):
    gone = {"message": "Application not found."}
    refused_once(scripted, client.deployments, UNKNOWN, status=401, then=gone, then_status=404)
    probe_is_due()
    with pytest.raises(NotFound):
        client.application("app-1")
    assert not Refusal.objects.exists()


def test_a_read_that_succeeds_does_not_prove_that_the_token_may_deploy(scripted, client):
    refused_once(scripted, lambda: client.stop("app-1"), NO_DEPLOY, status=403, then=[])
    Refusal.objects.create(token=Refusal.objects.get().token, ability="read", reason="no")
    probe_is_due()
    assert client.deployments() == []
    assert [refusal.ability for refusal in Refusal.objects.all()] == ["deploy"]


def test_a_call_is_sent_only_if_every_refusal_of_it_may_be_tried(scripted, client):
    refused_once(scripted, lambda: client.stop("app-1"), NO_DEPLOY, status=403)
    probe_is_due()
    later = Now() + timedelta(minutes=5)
    token = Refusal.objects.get().token
    Refusal.objects.create(token=token, ability="everything", reason="no", probe_at=later)
    with pytest.raises(AccessRefused):
        client.stop("app-1")
    assert len(scripted.asked) == 1


def test_the_token_itself_is_not_stored(scripted, client):
    scripted.answers({"message": "Unauthenticated."}, status=401)
    with pytest.raises(Unauthenticated):
        client.deployments()
    [refusal] = refusals(fingerprint(scripted.url, "1|secret"))
    assert "secret" not in f"{refusal.token} {refusal.reason}"
