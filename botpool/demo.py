"""Bots to watch and try, sent through the public API to a pool on the simulated Coolify."""

import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests
from django.conf import settings
from django.db.models.functions import Now

from api.keys import create_api_key, hash_of
from botpool.runtime.postgres.file_locks import locked
from botpool.runtime.secret_files import write_privately
from bots.models import ApiKey
from bots.status import Platform

KEY_NAME = "demo"
NAMES = ("Notetaker", "Interview recorder", "Stand-up scribe", "Board minutes", "Sales coach")
TIMEOUT = 10.0


class DemoRefused(Exception):
    """Botpool did not accept the demo bot; the message says why."""


@dataclass(frozen=True)
class Sender:
    """Sends demo bots with the demo's API key."""

    key: str
    random: random.Random

    def send(self, platform: str | None = None, **fields: Any) -> dict[str, Any]:
        """Send one bot, and return it as the API describes it."""
        body = self._request(platform or self.random.choice(Platform.values)) | fields
        url = f"{settings.PUBLIC_URL}/api/v1/bots"
        headers = {"Authorization": f"Bearer {self.key}"}
        try:
            response = requests.post(url, json=body, headers=headers, timeout=TIMEOUT)
        except requests.RequestException as error:
            raise DemoRefused(f"Botpool does not answer at {url}: {type(error).__name__}") from None
        if response.status_code != 201:
            raise DemoRefused(
                f"Botpool refused the bot ({response.status_code}): {_detail(response)}"
            )
        bot: dict[str, Any] = response.json()["bot"]
        return bot

    def _request(self, platform: str) -> dict[str, Any]:
        return {
            "platform": platform,
            "meetingUrl": _meeting(platform, self.random),
            "botDisplayName": self.random.choice(NAMES),
            "priority": self.random.choice((50, 100, 100, 100, 200)),
        }


def demo_sender() -> Sender:
    return Sender(key=_demo_key(), random=random.Random())  # noqa: S311 (not a secret)


def _demo_key() -> str:
    """The demo's API key, kept in the data directory. Replaced if that file is lost or old."""
    file = Path(settings.DATA_DIR, "demo_key")
    in_use = ApiKey.objects.filter(name=KEY_NAME, revoked_at=None)
    with locked(file.with_suffix(".lock")):
        key = file.read_text().strip() if file.exists() else ""
        if not in_use.filter(key_hash=hash_of(key)).exists():
            in_use.update(revoked_at=Now())
            key = create_api_key(name=KEY_NAME)
            write_privately(file, key)
        return key


def _meeting(platform: str, chance: random.Random) -> str:
    letters = "".join(chance.choices("abcdefghijkmnpqrstuvwxyz", k=10))
    number = chance.randrange(10**9, 10**10)
    return {
        Platform.GOOGLE_MEET.value: (
            f"https://meet.google.com/{letters[:3]}-{letters[3:7]}-{letters[7:]}"
        ),
        Platform.TEAMS.value: f"https://teams.microsoft.com/meet/{number}?p={letters}",
        Platform.ZOOM.value: f"https://zoom.us/j/{number}",
    }[platform]


def _detail(response: requests.Response) -> str:
    try:
        return str(response.json()["detail"])
    except (ValueError, KeyError, TypeError):
        return response.reason or "no reason given"
