"""Django's admin with our own site; Django loads this before it can load core.admin."""

from django.contrib.admin.apps import AdminConfig


class StrictAdminConfig(AdminConfig):
    default_site = "core.admin.StrictSite"
