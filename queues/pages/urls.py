from django.urls import path

from queues.pages.queue import queue

urlpatterns = [path("queue/", queue, name="queue")]
