from django.apps import AppConfig, apps
from django.db.models.signals import post_migrate

from dashboard.roles import make_roles


class DashboardConfig(AppConfig):
    name = "dashboard"
    verbose_name = "Dashboard"

    def ready(self) -> None:
        # Runs once per `migrate`, after the apps above have created their permissions.
        post_migrate.connect(make_roles, sender=apps.get_app_config("sessions"))
