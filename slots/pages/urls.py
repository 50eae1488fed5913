from django.urls import path

from slots.pages.deployment_list import deployment_list
from slots.pages.overview import overview
from slots.pages.slot import container_log, in_coolify, slot
from slots.pages.slot_list import slot_list

urlpatterns = [
    path("", overview, name="overview"),
    path("deployments/", deployment_list, name="deployments"),
    path("slots/", slot_list, name="slots"),
    path("slots/<str:name>/", slot, name="slot"),
    path("slots/<str:name>/log/", container_log, name="slot_log"),
    path("slots/<str:name>/coolify/", in_coolify, name="slot_in_coolify"),
]
