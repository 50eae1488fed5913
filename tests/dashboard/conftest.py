import pytest
from django.contrib.auth.models import Group, User
from django.core.cache import cache
from django.test import Client

from dashboard.roles import ADMINISTRATOR, OPERATOR, VIEWER

PASSWORD = "correct horse battery staple"


@pytest.fixture(autouse=True)
def _empty_cache():
    cache.clear()


def make_user(name, *roles, password=None, **fields):
    user = User.objects.create_user(name, password=password, **fields)
    user.groups.set(Group.objects.filter(name__in=roles))
    return user


def logged_in(user):
    client = Client(raise_request_exception=True)
    client.force_login(user)
    return client


@pytest.fixture
def viewer(db):
    return logged_in(make_user("vera", VIEWER))


@pytest.fixture
def operator(db):
    return logged_in(make_user("otto", OPERATOR))


@pytest.fixture
def administrator(db):
    return logged_in(make_user("ada", ADMINISTRATOR, is_staff=True))
