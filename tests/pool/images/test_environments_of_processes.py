"""Which process's `BOT_IMAGE_…` is followed, if they differ during a restart."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.db import connection

from core.clock import database_now
from pool.images.rollout import follow_environment
from slots.images import PlatformImage
from tests.chaos.skew import with_skewed_clock

pytestmark = pytest.mark.django_db(transaction=True)

ROOT = Path(__file__).parents[3]
FOLLOW = """
import django
django.setup()
from pool.images.rollout import follow_environment
follow_environment()
"""


def follow_in_another_process(image: str, **variables: str) -> None:
    database = connection.settings_dict
    place = f"{database['NAME']}?host={database['HOST']}&port={database['PORT']}"
    environment = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "botpool.settings",
        "DATABASE_URL": f"postgres://{database['USER']}@/{place}",
        "BOT_IMAGE_ZOOM": image,
        **variables,
    }
    subprocess.run([sys.executable, "-c", FOLLOW], env=environment, cwd=ROOT, check=True)


@pytest.mark.parametrize("hours", [-1, 0, 1])
def test_the_process_that_was_started_last_is_followed_whatever_its_hosts_clock(tmp_path, hours):
    follow_environment()
    skew = with_skewed_clock(tmp_path, seconds=3_600 * hours)
    if not skew:
        pytest.skip("no C compiler, which the wrong clock needs")
    follow_in_another_process("bot:2.0", **skew)
    # This process, which is older, does not change it back.
    follow_environment()
    row = PlatformImage.objects.get(platform="zoom")
    assert (row.named, row.named_at <= database_now()) == ("bot:2.0", True)
