import pytest
from django.core.management import CommandError, call_command

from botpool import demo
from bots.models import ApiKey, Bot
from bots.status import Platform
from tests.concurrency import at_once, then_meet

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def running_botpool(settings, live_server, tmp_path):
    settings.PUBLIC_URL = live_server.url
    settings.COOLIFY_SIMULATED = True
    settings.DATA_DIR = tmp_path


def send(**options):
    call_command("demo", per_minute=6000, **options)


def test_it_sends_bots_and_says_where_to_watch_them(capsys, live_server):
    send(bots=4)
    assert Bot.objects.count() == 4
    out = capsys.readouterr().out
    assert "4/4" in out
    assert f"{live_server.url}/bots/" in out


def test_it_can_send_to_one_platform_only():
    send(bots=3, platform="zoom")
    assert set(Bot.objects.values_list("platform", flat=True)) == {Platform.ZOOM}


def test_its_meeting_urls_are_valid_on_every_platform():
    for platform in Platform.values:
        send(bots=1, platform=platform)
    assert Bot.objects.count() == 3


def test_a_second_run_uses_the_same_key(tmp_path):
    send(bots=1)
    send(bots=1)
    assert ApiKey.objects.count() == 1
    assert (tmp_path / "demo_key").stat().st_mode & 0o777 == 0o600


def test_a_key_whose_file_was_lost_is_replaced(tmp_path):
    send(bots=1)
    (tmp_path / "demo_key").unlink()
    send(bots=1)
    assert ApiKey.objects.filter(revoked_at__isnull=True).count() == 1


def test_a_key_whose_file_was_not_written_to_the_end_is_replaced(tmp_path):
    send(bots=1)
    (tmp_path / "demo_key").write_text("")
    send(bots=1)
    assert ApiKey.objects.filter(revoked_at__isnull=True).count() == 1


def test_processes_that_start_together_share_a_key(monkeypatch):
    slow = then_meet(demo.create_api_key, patience=0.5)
    monkeypatch.setattr(demo, "create_api_key", slow)
    keys = at_once([lambda: demo.demo_sender().key] * 2)
    assert len(set(keys)) == 1
    assert ApiKey.objects.count() == 1


def test_it_sends_nothing_to_a_real_coolify(settings):
    settings.COOLIFY_SIMULATED = False
    with pytest.raises(CommandError, match="simulated Coolify only"):
        send(bots=1)
    assert not Bot.objects.exists()


@pytest.mark.parametrize("options", [{"bots": -1}, {"bots": 1, "per_minute": 0}])
def test_it_refuses_invalid_numbers(options):
    with pytest.raises(CommandError):
        call_command("demo", **{"per_minute": 6000, **options})
