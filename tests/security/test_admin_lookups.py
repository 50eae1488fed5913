"""Filters in the address of an admin list cannot find out what the list does not show."""

import logging

import pytest
from django.contrib import admin
from django.contrib.admin.sites import site
from django.contrib.auth.models import Group, User
from django.db.models import JSONField, Model
from django.test import Client, RequestFactory
from django.urls import reverse

import botpool.urls  # registers the models that no app registers itself
from api.keys import create_api_key
from bots.models import ApiKey, Bot
from core.administration.site import StrictSite
from dashboard.roles import VIEWER
from tests.factories import BotFactory

pytestmark = pytest.mark.django_db

LOOKUPS = [
    "", "__exact", "__iexact", "__contains", "__icontains", "__startswith", "__istartswith",
    "__endswith", "__regex", "__iregex", "__in", "__gt", "__gte", "__lt", "__lte", "__range",
    "__isnull", "__year", "__date", "__has_key", "__contained_by", "__password__startswith",
]  # fmt: skip
# The forms in which Django's own filters pass their choice on.
OF_FILTERS = {"", "__exact", "__isnull", "__isempty", "__id__exact", "__gte", "__lt"}


@pytest.fixture
def staff() -> Client:
    """May see everything and change nothing."""
    user = User.objects.create_user("vera", is_staff=True)
    user.groups.set(Group.objects.filter(name=VIEWER))
    client = Client(raise_request_exception=False)
    client.force_login(user)
    return client


def list_of(model: type[Model]) -> str:
    return reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist")


def declared(model_admin: admin.ModelAdmin) -> set[str]:
    names = set()
    for each in model_admin.list_filter:
        if isinstance(each, type):
            names.add(each.parameter_name)
        else:
            names.add(each if isinstance(each, str) else each[0])
    return names


def field_paths(model: type[Model]) -> set[str]:
    """Fields of the model, and those of its neighbours."""
    paths = set()
    for field in model._meta.get_fields():
        paths.add(field.name)
        if field.is_relation and field.related_model:
            paths |= {f"{field.name}__{far.name}" for far in field.related_model._meta.fields}
    return paths | {"pk", "nothing"}


@pytest.mark.parametrize("model", site._registry, ids=lambda model: model.__name__)
def test_only_declared_filters_are_allowed(model):
    model_admin = site._registry[model]
    request = RequestFactory().get("/")
    allowed = {
        path + lookup
        for path in field_paths(model)
        for lookup in LOOKUPS
        if model_admin.lookup_allowed(path + lookup, "a", request)
    }
    assert allowed <= {name + form for name in declared(model_admin) for form in OF_FILTERS}


@pytest.mark.parametrize("model", site._registry, ids=lambda model: model.__name__)
def test_no_filter_breaks_a_list(admin_client, model):
    address = list_of(model)
    assert admin_client.get(address, {"pk__startswith": "5"}).status_code == 400
    for name in declared(site._registry[model]):
        for form in OF_FILTERS:
            answer = admin_client.get(address, {name + form: "("})
            assert answer.status_code in (200, 302, 400), name + form


def test_the_hash_of_a_key_cannot_be_guessed_by_its_characters(staff):
    create_api_key(name="client")
    first = ApiKey.objects.get().key_hash[0]
    answers = {
        staff.get("/admin/bots/apikey/", {"key_hash__startswith": character}).content
        for character in (first, "z")
    }
    assert len(answers) == 1


def test_masked_configuration_cannot_be_guessed(staff):
    BotFactory(config={"password": "hunter2"})
    assert any(isinstance(field, JSONField) for field in Bot._meta.fields)
    answers = {
        staff.get("/admin/bots/bot/", {"config__password__startswith": character}).content
        for character in ("h", "z")
    }
    assert len(answers) == 1


@pytest.mark.parametrize("query", ["display_name__regex=(", "created_at__year=99999", "nothing=1"])
def test_a_query_that_the_database_would_refuse_is_not_sent(staff, query):
    assert staff.get(f"/admin/bots/bot/?{query}").status_code == 400


@pytest.mark.parametrize("query", ["config__x=1", "display_name__regex=(", "_to_field=config"])
def test_a_refused_query_is_one_warning(staff, query, caplog):
    """Any viewer can send it; it is no error of ours."""
    assert staff.get(f"/admin/bots/bot/?{query}").status_code == 400
    [line] = caplog.records
    [console] = [each for each in logging.root.handlers if type(each) is logging.StreamHandler]
    assert console.filter(line)
    assert (line.levelname, line.exc_info) == ("WARNING", None)
    assert "not allowed" in line.getMessage() or "cannot be referenced" in line.getMessage()


def test_declared_filters_work(staff):
    BotFactory(platform="zoom", display_name="the one on Zoom")
    BotFactory(platform="teams", display_name="the other")
    page = staff.get("/admin/bots/bot/?platform__exact=zoom").text
    assert "the one on Zoom" in page
    assert "the other" not in page


def test_no_admin_can_forget_it():
    """Not even one of a library that registers itself."""
    assert botpool.urls.admin.site is site
    assert isinstance(site, StrictSite)
    strict = StrictSite(name="test")
    strict.register(Bot, admin.ModelAdmin)
    strict.register(ApiKey)
    request = RequestFactory().get("/")
    assert not strict._registry[Bot].lookup_allowed("config__x", "1", request)
    assert not strict._registry[ApiKey].lookup_allowed("key_hash__startswith", "1", request)
