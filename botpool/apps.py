from django.apps import AppConfig, apps
from django.db.models.signals import post_migrate


class BotpoolConfig(AppConfig):
    name = "botpool"
    verbose_name = "Botpool"

    def ready(self) -> None:
        from botpool.roles import make_roles

        # Once per migration, and after the apps whose permissions the roles are made of.
        post_migrate.connect(make_roles, sender=apps.get_app_config("sessions"))
