from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from api.keys import (
    NameIsTaken,
    TooManyCalls,
    UnknownKey,
    create_api_key,
    revoke_api_key,
    use_api_key,
)
from bots.models import ApiKey

pytestmark = pytest.mark.django_db


def test_only_the_hash_of_a_key_is_stored():
    key = create_api_key(name="app")
    row = ApiKey.objects.values().get()
    assert key not in str(row) and key.removeprefix("bp_") not in str(row)


def test_using_a_key_returns_it_and_records_the_use():
    key = create_api_key(name="ops", role="operator")
    assert ApiKey.objects.get().last_used_at is None
    used = use_api_key(key)
    assert (used.name, used.role) == ("ops", "operator")
    assert ApiKey.objects.get().last_used_at is not None


@pytest.mark.parametrize("key", ["", "bp_", "bp_unknown", "\ud800"])
def test_an_unknown_key_is_refused(key):
    create_api_key(name="app")
    with pytest.raises(UnknownKey):
        use_api_key(key)


def test_a_revoked_key_is_refused():
    key = create_api_key(name="app")
    assert revoke_api_key(ApiKey.objects.get())
    with pytest.raises(UnknownKey):
        use_api_key(key)


def test_revoking_a_revoked_key_returns_false():
    create_api_key(name="app")
    revoke_api_key(ApiKey.objects.get())
    assert not revoke_api_key(ApiKey.objects.get())


def test_two_active_keys_cannot_have_the_same_name():
    create_api_key(name="app")
    with pytest.raises(NameIsTaken):
        create_api_key(name="app")


def test_the_name_of_a_revoked_key_can_be_used_again():
    create_api_key(name="app")
    revoke_api_key(ApiKey.objects.get())
    assert create_api_key(name="app")


@pytest.mark.parametrize("name", ["", " ", "x" * 101, "two\nlines"])
def test_an_invalid_name_is_refused(name):
    with pytest.raises(ValueError, match="name"):
        create_api_key(name=name)


def test_an_unknown_role_is_refused():
    with pytest.raises(ValueError, match="root"):
        create_api_key(name="app", role="root")


def test_a_key_may_burst_for_a_minutes_worth_of_calls(settings):
    settings.API_RATE_LIMIT = 3
    key = create_api_key(name="app")
    for _ in range(3):
        use_api_key(key)
    with pytest.raises(TooManyCalls) as refusal:
        use_api_key(key)
    assert 1 <= refusal.value.retry_after <= 20


def test_each_key_has_its_own_rate(settings):
    settings.API_RATE_LIMIT = 1
    use_api_key(create_api_key(name="app"))
    assert use_api_key(create_api_key(name="other"))


def test_refused_calls_are_not_charged(settings):
    settings.API_RATE_LIMIT = 1
    key = create_api_key(name="app")
    use_api_key(key)
    paid_off_at = ApiKey.objects.get().paid_off_at
    with pytest.raises(TooManyCalls):
        use_api_key(key)
    assert ApiKey.objects.get().paid_off_at == paid_off_at


def test_without_a_limit_no_call_is_refused(settings):
    settings.API_RATE_LIMIT = 0
    key = create_api_key(name="app")
    assert all(use_api_key(key) for _ in range(50))


def test_using_a_key_costs_one_round_trip(django_assert_num_queries):
    key = create_api_key(name="app")
    with django_assert_num_queries(1):
        use_api_key(key)


def test_the_command_prints_the_key():
    out, notes = StringIO(), StringIO()
    call_command("create_api_key", "ops", role="operator", stdout=out, stderr=notes)
    assert use_api_key(out.getvalue().strip()).role == "operator"


def test_the_command_says_beside_it_what_the_key_is_for():
    out, notes = StringIO(), StringIO()
    call_command("create_api_key", "app-2", client="app", stdout=out, stderr=notes)
    assert len(out.getvalue().split()) == 1  # for scripts
    assert notes.getvalue() == "API key app-2 of client app, role client:\n"


def test_the_command_refuses_a_name_in_use():
    create_api_key(name="app")
    with pytest.raises(CommandError, match="'app' is in use"):
        call_command("create_api_key", "app")


@pytest.mark.django_db(transaction=True)
def test_only_the_use_of_a_key_is_committed_asynchronously():
    key = create_api_key(name="app")
    with connection.cursor() as cursor:
        cursor.execute("SET synchronous_commit = on")  # off on the test server
        use_api_key(key)
        cursor.execute("SHOW synchronous_commit")
        assert cursor.fetchone() == ("on",)
        cursor.execute("RESET synchronous_commit")
