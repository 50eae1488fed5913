from django.apps import AppConfig


class CoolifyConfig(AppConfig):
    name = "coolify"
