import re

import pytest
from django.db.models.functions import Now

from api.keys import UnknownKey, create_api_key, hash_of, use_api_key
from bots.models import ApiKey

ADD = "/admin/bots/apikey/add/"
LIST = "/admin/bots/apikey/"


def test_a_key_made_in_the_admin_is_shown_once(admin_client):
    form = {"name": "app", "role": "client", "webhook_url": ""}
    page = admin_client.post(ADD, form, follow=True).content.decode()
    (key,) = set(re.findall(r"bp_[\w-]{43}", page))
    assert use_api_key(key).name == "app"
    assert key not in admin_client.get(LIST).content.decode()


def test_the_admin_shows_neither_key_nor_hash(admin_client):
    key = create_api_key(name="app")
    row = ApiKey.objects.get()
    for path in (LIST, f"{LIST}{row.pk}/change/", f"{LIST}{row.pk}/history/"):
        page = admin_client.get(path).content.decode()
        assert key not in page and hash_of(key) not in page


def test_a_key_is_revoked_in_the_admin(admin_client):
    key = create_api_key(name="app")
    form = {"action": "revoke", "_selected_action": [ApiKey.objects.get().pk]}
    admin_client.post(LIST, form)
    with pytest.raises(UnknownKey):
        use_api_key(key)


def test_changing_a_key_keeps_its_last_use(admin_client):
    key = create_api_key(name="app")
    use_api_key(key)
    used = ApiKey.objects.get().last_used_at
    form = {"name": "app", "role": "operator", "webhook_url": ""}
    admin_client.post(f"{LIST}{ApiKey.objects.get().pk}/change/", form)
    assert (ApiKey.objects.get().role, ApiKey.objects.get().last_used_at) == ("operator", used)


def test_a_name_in_use_is_refused_by_the_form(admin_client):
    create_api_key(name="app")
    answer = admin_client.post(ADD, {"name": "app", "role": "client", "webhook_url": ""})
    assert answer.status_code == 200  # the form with its error
    assert ApiKey.objects.count() == 1


def test_a_private_webhook_address_is_refused_by_the_form(admin_client):
    form = {"name": "app", "role": "client", "webhook_url": "http://10.0.0.1/"}
    answer = admin_client.post(ADD, form)
    assert answer.status_code == 200
    assert not ApiKey.objects.exists()


def test_keys_are_filtered_by_words_that_fit(admin_client):
    create_api_key(name="new")
    create_api_key(name="old")
    ApiKey.objects.filter(name="old").update(revoked_at=Now())
    page = admin_client.get("/admin/bots/apikey/?revoked_at__isempty=0").content.decode()
    assert "Revoked" in page and "In use" in page and "Not empty" not in page
    assert ">old<" in page and ">new<" not in page


@pytest.mark.parametrize("name", ["\u202eevil", "al\x07ice", "a\u2028b"])
def test_a_name_with_invisible_characters_is_refused_by_the_form(admin_client, name):
    create_api_key(name="app")
    form = {"name": name, "role": "client", "webhook_url": ""}
    for address in (ADD, f"{LIST}{ApiKey.objects.get().pk}/change/"):
        answer = admin_client.post(address, form)
        assert answer.status_code == 200
        assert "printable" in answer.text
    assert ApiKey.objects.get().name == "app"
