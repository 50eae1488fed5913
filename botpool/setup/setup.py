"""The questions in their order, and what is written at the end."""

import secrets

from botpool.setup.answers import Answers
from botpool.setup.console import Choice
from botpool.setup.coolify import ask_about_coolify
from botpool.setup.env_file import EnvFile
from botpool.setup.values import fault_in, fault_of_database, fault_of_public_url

PLATFORMS = {"Google Meet": "GOOGLE_MEET", "Microsoft Teams": "TEAMS", "Zoom": "ZOOM"}
OF_COMPOSE, OWN, EMBEDDED = "compose", "own", "embedded"
DATABASES = [
    Choice(value=OF_COMPOSE, words="the one in compose.yaml, with Docker Compose or on Coolify"),
    Choice(value=OWN, words="a PostgreSQL of my own (DATABASE_URL)"),
    Choice(value=EMBEDDED, words="the embedded one: for a trial on this machine"),
]


def ask_everything(answers: Answers) -> None:
    ask_about_coolify(answers)
    _ask_for_images(answers)
    answers.need(
        "BOTPOOL_PUBLIC_URL",
        "Where bots and browsers reach Botpool, such as https://botpool.example",
        fault=fault_of_public_url,
        clean=lambda url: url.strip().rstrip("/"),
    )
    _ask_for_database(answers)


def save(answers: Answers, file: EnvFile) -> str:
    """Write the file, unless the settings refuse the whole: then say why."""
    fault = fault_in({**file.values, **answers.given})
    if not fault:
        for name, value in answers.given.items():
            file.set(name, value)
        file.write()
    return fault


def _ask_for_images(answers: Answers) -> None:
    images = [_ask_for_image(answers, *each, ask=False) for each in PLATFORMS.items()]
    while not any(images):
        answers.console.fault(
            f"No image is given, so no bot could start. Set {_image('ZOOM')} or another one."
        )
        images = [_ask_for_image(answers, *each, ask=True) for each in PLATFORMS.items()]


def _ask_for_image(answers: Answers, platform: str, suffix: str, *, ask: bool) -> str:
    """Without an image, the platform gets no slots."""
    name, size = _image(suffix), f"MAX_POOL_SIZE_{suffix}"
    is_left_out = answers.console.ask is None or answers.keep(size)
    image = ""
    if answers.has(name) or ask or not is_left_out:
        image = answers.need(
            name,
            f"The image of the bot for {platform}, such as registry.example/bot:1 (empty: none)",
            fault=lambda image: fault_in({name: image}),
            optional=True,
        )
    if not image:
        answers.give(size, "0")
    return image


def _image(suffix: str) -> str:
    return f"BOT_IMAGE_{suffix}"


def _ask_for_database(answers: Answers) -> None:
    if _database(answers) == EMBEDDED:
        return
    _make_secret(answers, "SECRET_KEY")
    _make_secret(answers, "COOLIFY_WEBHOOK_SECRET")


def _database(answers: Answers) -> str:
    if answers.has("POSTGRES_PASSWORD"):
        kind = OF_COMPOSE
    elif answers.has("DATABASE_URL"):
        kind = OWN
    else:
        answers.console.say("Which database?")
        kind = answers.console.choose(
            "Number", DATABASES, name="DATABASE_URL, or POSTGRES_PASSWORD with compose.yaml,"
        )
    if kind == OF_COMPOSE:
        _make_secret(answers, "POSTGRES_PASSWORD")
    if kind == OWN:
        answers.need(
            "DATABASE_URL",
            "Its address, postgres://user:password@host:port/name",
            fault=fault_of_database,
            secret=True,
        )
    return kind


def _make_secret(answers: Answers, name: str) -> None:
    kept = answers.keep(name)
    if not kept:
        answers.give(name, secrets.token_hex(32))
    answers.console.ok(f"{name} is {'set' if kept else 'generated'}")
