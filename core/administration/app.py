"""Django's admin with our own site. Django loads this first, so it may import no models."""

from django.contrib.admin.apps import AdminConfig


class StrictAdminConfig(AdminConfig):
    default_site = "core.administration.site.StrictSite"
