"""manage.py warm_image"""

import io

import pytest
from django.core.management import CommandError, call_command
from django.db.models.functions import Now

from botpool.management.commands import warm_image
from servers.models import Server
from slots.images import Prepull

pytestmark = pytest.mark.django_db(transaction=True)

IMAGE = "registry.example/bot:1.4"


@pytest.fixture(autouse=True)
def servers(settings, monkeypatch):
    settings.COOLIFY_SERVER_UUIDS = ["a", "b"]
    Server.objects.create(uuid="a", name="bots-1"), Server.objects.create(uuid="b", name="bots-2")
    monkeypatch.setattr(warm_image, "PAUSE", 0)


def run(*words: str) -> str:
    out = io.StringIO()
    call_command("warm_image", *words, stdout=out)
    return out.getvalue()


def work(monkeypatch, status: str) -> None:
    """A worker that ends one pre-pull in each pause."""

    def end_one(_: float) -> None:
        first = Prepull.objects.filter(ended_at=None).order_by("pk").first()
        over = {"status": status, "ended_at": Now(), "detail": "It ended"}
        Prepull.objects.filter(pk=first.pk).update(**over)

    monkeypatch.setattr(warm_image.time, "sleep", end_one)


def test_progress_is_shown_for_every_server(monkeypatch):
    work(monkeypatch, "done")
    lines = run(IMAGE).splitlines()
    assert lines == [
        "[0/2] bots-1: waiting.",
        "[0/2] bots-2: waiting.",
        "[1/2] bots-1: done. It ended",
        "[2/2] bots-2: done. It ended",
    ]


def test_a_failure_is_an_error(monkeypatch):
    work(monkeypatch, "failed")
    with pytest.raises(CommandError, match="1 of 1 servers do not have the image"):
        run(IMAGE, "--server", "bots-2")


def test_without_a_worker_it_says_so(monkeypatch):
    monkeypatch.setattr(warm_image, "WORKER_PATIENCE", -1)
    with pytest.raises(CommandError, match="is one running"):
        run(IMAGE)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ((IMAGE, "--server", "nowhere"), "no server 'nowhere'"),
        (("Not an image",), "not an image with its tag"),
    ],
)
def test_bad_input_changes_nothing(words, complaint):
    with pytest.raises(CommandError, match=complaint):
        run(*words)
    assert not Prepull.objects.exists()


def test_it_need_not_wait():
    assert "Follow it" in run(IMAGE, "--no-wait")
    assert Prepull.objects.count() == 2
