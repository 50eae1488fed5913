from django.urls import path

from dashboard.actions.registry import act
from dashboard.activity.activity import activity, dry_run, export
from dashboard.bots.bot import bot
from dashboard.bots.bot_list import bot_list
from dashboard.bots.new_bot import new_bot
from dashboard.clients.clients import clients
from dashboard.clients.webhooks import new_webhook, webhook, webhooks
from dashboard.history.history import history_page
from dashboard.lists.search import search
from dashboard.login import ChangePassword, Logout, ThrottledLogin
from dashboard.logs.follow import bot_log, slot_log
from dashboard.logs.kept import download
from dashboard.notifications.pages import (
    change_channel,
    change_rule,
    new_channel,
    new_rule,
    notification_log,
    notifications,
)
from dashboard.overview.maintenance import maintenance
from dashboard.overview.overview import overview
from dashboard.queue import queue
from dashboard.servers.server_list import server_list
from dashboard.slots.deployment_list import deployment_list
from dashboard.slots.slot import in_coolify, slot
from dashboard.slots.slot_list import slot_list

urlpatterns = [
    path("login/", ThrottledLogin.as_view(), name="login"),
    path("logout/", Logout.as_view(), name="logout"),
    path("password/", ChangePassword.as_view(), name="password"),
    path("", overview, name="overview"),
    path("history/", history_page, name="history"),
    path("maintenance/", maintenance, name="maintenance"),
    path("search/", search, name="search"),
    path("slots/", slot_list, name="slots"),
    path("slots/<str:name>/", slot, name="slot"),
    path("slots/<str:name>/log/", slot_log, name="slot_log"),
    path("slots/<str:name>/coolify/", in_coolify, name="slot_in_coolify"),
    path("bots/", bot_list, name="bots"),
    path("bots/new/", new_bot, name="new_bot"),
    path("bots/<int:pk>/", bot, name="bot"),
    path("bots/<int:pk>/log/", bot_log, name="bot_log"),
    path("logs/<int:pk>/", download, name="kept_log"),
    path("queue/", queue, name="queue"),
    path("deployments/", deployment_list, name="deployments"),
    path("clients/", clients, name="clients"),
    path("webhooks/", webhooks, name="webhooks"),
    path("webhooks/new/", new_webhook, name="new_webhook"),
    path("webhooks/<int:pk>/", webhook, name="webhook"),
    path("notifications/", notifications, name="notifications"),
    path("notifications/log/", notification_log, name="notification_log"),
    path("notifications/channels/new/", new_channel, name="new_channel"),
    path("notifications/channels/<int:pk>/", change_channel, name="change_channel"),
    path("notifications/rules/new/", new_rule, name="new_rule"),
    path("notifications/rules/<int:pk>/", change_rule, name="change_rule"),
    path("servers/", server_list, name="servers"),
    path("activity/", activity, name="activity"),
    path("activity/export/", export, name="export"),
    path("activity/dry-run/", dry_run, name="dry_run"),
    path("actions/<slug:name>/", act, name="action"),
]
