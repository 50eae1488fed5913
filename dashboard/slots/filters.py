"""Filters of the slot list, read from the query string."""

from django.db.models import OuterRef, Q, QuerySet
from django.http import QueryDict

from bots.status import Platform
from core.sql import CountOf
from pool.failures.recent import failed_starts
from slots.deployment import Deployment
from slots.models import Slot
from slots.status import ContainerStatus, SlotStatus

SORTS = {
    "name": ("platform", "number"),
    "status": ("status", "status_since"),
    "since": ("-status_since", "id"),
    "used": ("-last_used_at", "id"),
    "failures": ("-failures", "platform", "number"),
}

CHOICES: dict[str, list[tuple[str, str]]] = {
    "platform": [(each.value, each.label) for each in Platform],
    "status": [(each.value, each.label) for each in SlotStatus],
    "container": [(each.value, each.label) for each in ContainerStatus],
    "cordoned": [
        ("yes", "Cordoned"),
        ("quarantined", "Quarantined"),
        ("beyond", "Beyond the size"),
        ("no", "In service"),
    ],
}


def slots_that_match(given: QueryDict) -> QuerySet[Slot]:
    """An unknown value matches no slots, not all of them."""
    slots = Slot.objects.all()
    if given.get("platform"):
        slots = slots.filter(platform=given["platform"])
    if given.get("status"):
        slots = slots.filter(status=given["status"])
    if given.get("container"):
        slots = slots.filter(container_status=given["container"])
    if given.get("cordoned") == "quarantined":
        slots = slots.filter(quarantined=True)
    elif given.get("cordoned") == "beyond":
        slots = slots.filter(beyond_size=True)
    elif given.get("cordoned"):
        slots = slots.filter(cordoned=given["cordoned"] == "yes")
    words = given.get("q", "").strip()
    if words:
        slots = slots.filter(_search(words))
    if given.get("sort") == "failures":
        own = failed_starts(Deployment.objects.filter(slot=OuterRef("pk")))
        slots = slots.annotate(failures=CountOf(own))
    return slots.order_by(*SORTS.get(given.get("sort", ""), SORTS["name"]))


def _search(words: str) -> Q:
    found = (
        Q(name__icontains=words)
        | Q(coolify_uuid__iexact=words)
        | Q(error__icontains=words)
        | Q(assigned_bot__correlation_id=words)
    )
    number = words.removeprefix("#")
    if number.isascii() and number.isdigit() and len(number) < 18:
        found |= Q(assigned_bot_id=int(number))
    return found
