"""Django's admin site: strict about lookups, with an index of what administrators need."""

from typing import Any

from django.apps import apps
from django.contrib import admin
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.core.exceptions import BadRequest, ValidationError
from django.core.validators import ProhibitNullCharactersValidator
from django.http import HttpRequest, HttpResponseRedirect
from django.urls import reverse
from django.utils.text import capfirst

# The forms in which Django's filters pass on what was chosen.
_FORMS_OF_FILTERS = ("", "__exact", "__isnull", "__isempty", "__id__exact", "__gte", "__lt")


class DeclaredLookups:
    """Refuses every lookup in the address of a list that its `list_filter` does not offer.

    Django allows all lookups on all fields of the model. A reader could then guess a hidden field
    character by character, or send expressions that PostgreSQL refuses.
    """

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest) -> bool:
        filters = self.get_list_filter(request)  # type: ignore[attr-defined]
        return any(lookup in _lookups_of(each) for each in filters)


def _lookups_of(declared: Any) -> list[str]:
    if isinstance(declared, type):
        return [declared.parameter_name]  # type: ignore[attr-defined]
    field = declared if isinstance(declared, str) else declared[0]
    return [field + form for form in _FORMS_OF_FILTERS]


class ReadableSelections:
    """Refuses selected rows whose key the model cannot have: the query for them would fail."""

    def response_action(self, request: HttpRequest, queryset: Any) -> Any:
        key = queryset.model._meta.pk
        for each in request.POST.getlist(ACTION_CHECKBOX_NAME):
            try:
                ProhibitNullCharactersValidator()(key.to_python(each))
            except ValidationError:
                raise BadRequest("The selection cannot be read") from None
        return super().response_action(request, queryset)  # type: ignore[misc]


class WithoutLinks:
    """Leaves rows that only link two others out of what is listed before a deletion."""

    def get_deleted_objects(self, rows: Any, request: HttpRequest) -> tuple[Any, ...]:
        found, counts, *rest = super().get_deleted_objects(rows, request)  # type: ignore[misc]
        models = apps.get_models(include_auto_created=True)
        links = [each._meta for each in models if each._meta.auto_created]
        lines = tuple(f"{capfirst(each.verbose_name)}: " for each in links)
        names = {each.verbose_name_plural for each in links}
        kept = {name: count for name, count in counts.items() if name not in names}
        return _without(found, lines), kept, *rest


def _without(found: list[Any], lines: tuple[str, ...]) -> list[Any]:
    """`found` is a tree: after a text there may be a list of what hangs on it."""
    shown: list[Any] = []
    for each in found:
        if isinstance(each, list):
            shown += [inner] if (inner := _without(each, lines)) else []
        elif not str(each).startswith(lines):
            shown.append(each)
    return shown


class StrictSite(admin.AdminSite):
    """Makes every admin that is registered strict, also those of libraries.

    `sections`: the index, as titles with the labels of their models. Tables that are not named
    there can be opened by their address, but are not offered.
    """

    sections: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def register(self, model_or_iterable: Any, admin_class: Any = None, **options: Any) -> None:
        lax = admin_class or admin.ModelAdmin
        parts = (DeclaredLookups, ReadableSelections, WithoutLinks, lax)
        strict = type(lax.__name__, parts, {"__module__": lax.__module__})
        super().register(model_or_iterable, strict, **options)

    def get_app_list(self, request: HttpRequest, app_label: str | None = None) -> list[Any]:
        by_label = {
            model["model"]._meta.label: model
            for app in super().get_app_list(request, app_label)
            for model in app["models"]
        }
        found = [
            (title, [by_label[label] for label in labels if label in by_label])
            for title, labels in self.sections
        ]
        home = reverse("admin:index")
        return [
            {"name": title, "app_label": title.lower(), "app_url": home, "models": models}
            for title, models in found
            if models
        ]

    def app_index(self, request: HttpRequest, app_label: str, extra_context: Any = None) -> Any:
        """The index has everything. Which package a model lives in is of no use to its readers."""
        return HttpResponseRedirect(reverse("admin:index"))

    def password_change(self, request: HttpRequest, extra_context: Any = None) -> Any:
        """Redirect to the only page that changes one's own password: it limits guesses."""
        return HttpResponseRedirect(reverse("password"))
