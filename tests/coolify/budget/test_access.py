"""A token that Coolify refused is not tried again and again."""

from datetime import timedelta

import pytest
from django.db.models.functions import Now

from coolify.budget.access import allow_access, fingerprint, refusals
from coolify.budget.governor import Governor
from coolify.client import Coolify
from coolify.client.errors import (
    AbilityMissing,
    AccessRefused,
    ApiDisabled,
    RoleMissing,
    Unauthenticated,
)
from coolify.models import Refusal

pytestmark = pytest.mark.django_db

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


def test_an_api_that_is_enabled_again_is_used_again(scripted, client):
    scripted.answers(DISABLED, status=403)
    scripted.answers([])
    with pytest.raises(ApiDisabled):
        client.deployments()
    Refusal.objects.update(probe_at=Now() - timedelta(seconds=1))
    assert client.deployments() == []
    assert client.deployments() == []


def test_the_token_itself_is_not_stored(scripted, client):
    scripted.answers({"message": "Unauthenticated."}, status=401)
    with pytest.raises(Unauthenticated):
        client.deployments()
    [refusal] = refusals(fingerprint(scripted.url, "1|secret"))
    assert "secret" not in f"{refusal.token} {refusal.reason}"
