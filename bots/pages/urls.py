from django.urls import path

from bots.pages.bot import bot
from bots.pages.bot_list import bot_list
from bots.pages.new_bot import new_bot

urlpatterns = [
    path("bots/", bot_list, name="bots"),
    path("bots/new/", new_bot, name="new_bot"),
    path("bots/<int:pk>/", bot, name="bot"),
]
