from django.apps import AppConfig


class CoolifyConfig(AppConfig):
    name = "coolify"
    default_auto_field = "django.db.models.BigAutoField"
