import os
import sys
from getpass import getpass
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from botpool.setup.answers import Answers
from botpool.setup.console import CannotGoOn, Console
from botpool.setup.env_file import EnvFile
from botpool.setup.setup import ask_everything, save
from core.environment import BASE_DIR, file_path

NEXT = """
Next, with Docker Compose:
  docker compose up -d --build
  docker compose run --rm web manage createsuperuser
  docker compose run --rm web manage doctor
or on this machine: make run, and manage.py doctor in another terminal.
docs/quickstart.md goes on from here."""


class Command(BaseCommand):
    help = (
        "Ask for what is missing to run Botpool with a real Coolify, test each answer there, and "
        "write it to .env. Values in the environment win over those in the file. Run it again at "
        "any time: it keeps what works."
    )
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--no-input",
            action="store_true",
            help="Do not ask: use the environment and .env, and fail if a value is wrong.",
        )
        parser.add_argument("--file", type=Path, help="Write this file instead of .env.")

    def handle(self, *args: Any, **options: Any) -> None:
        path = options["file"] or file_path() or BASE_DIR / ".env"
        asks = not options["no_input"]
        console = Console(say=self.stdout.write, ask=input if asks else None, ask_secretly=getpass)
        try:
            file = EnvFile(path, example=BASE_DIR / ".env.example")
            answers = Answers(file, os.environ, console)
            ask_everything(answers)
            fault = save(answers, file)
        except KeyboardInterrupt:
            self.stdout.write(f"\nStopped. {path} is as it was.")
            sys.exit(130)
        except CannotGoOn as error:
            raise CommandError(f"{error} {path} is as it was.") from None
        except OSError as error:
            raise CommandError(f"{path}: {error.strerror}") from None
        if fault:
            raise CommandError(f"{fault}. {path} is as it was.")
        for name in answers.hidden_by(os.environ):
            self.stdout.write(f"note   {name} is also set in the environment, which wins: unset it")
        self.stdout.write(f"\nWritten to {path}, which only you can read.{NEXT}")
