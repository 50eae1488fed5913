"""The three built-in groups and their permissions."""

from typing import Any

from django.apps import apps
from django.db.models import Q

VIEWER, OPERATOR, ADMINISTRATOR = "viewer", "operator", "administrator"
OUR_APPS = ("botpool", "bots", "slots", "queues", "coolify")

_SEES = Q(codename__startswith="view_", content_type__app_label__in=OUR_APPS)
_OPERATES = _SEES | Q(codename="operate_pool")
_ADMINISTERS = (
    _OPERATES
    | Q(codename="administer_pool")
    | Q(content_type__app_label="auth", content_type__model="user")
    | Q(content_type__app_label="auth", codename="view_group")
    | Q(content_type__app_label="bots", content_type__model="apikey")
)


def make_roles(**_: Any) -> None:
    """Give each group its permissions. Runs after every migration, to include new models."""
    groups, permissions = apps.get_model("auth", "Group"), apps.get_model("auth", "Permission")
    for name, may in ((VIEWER, _SEES), (OPERATOR, _OPERATES), (ADMINISTRATOR, _ADMINISTERS)):
        group, _created = groups.objects.get_or_create(name=name)
        group.permissions.add(*permissions.objects.filter(may))
