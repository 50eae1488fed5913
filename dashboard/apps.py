from django.apps import AppConfig, apps
from django.db.models.signals import post_migrate

from dashboard.roles import make_roles


class DashboardConfig(AppConfig):
    name = "dashboard"
    verbose_name = "Dashboard"

    def ready(self) -> None:
        # Once per migration, and after the apps whose permissions the roles are made of.
        post_migrate.connect(make_roles, sender=apps.get_app_config("sessions"))
