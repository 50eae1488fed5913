"""Which bots a key may see: those of its client. Operators' keys see all."""

from django.conf import settings
from django.db.models import QuerySet
from django.http import HttpRequest

from api.access import key_of
from bots.models import ApiKey, Bot


def sees_all(request: HttpRequest) -> bool:
    is_operator = key_of(request).role == ApiKey.Role.OPERATOR
    return is_operator or not settings.TENANT_ISOLATION


def visible_bots(request: HttpRequest) -> QuerySet[Bot]:
    bots = Bot.objects.all()
    return bots if sees_all(request) else bots.filter(client=key_of(request).client_id or 0)
