from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import transaction

from api.keys import NameIsTaken, create_api_key, hash_of
from api.webhooks.signatures import secret_of
from bots.models import ApiKey, WebhookEndpoint


class Command(BaseCommand):
    help = "Create an API key and print it. Only its hash is stored, so the key is shown once."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", help="who uses it; the history shows it as key:NAME")
        parser.add_argument("--role", choices=ApiKey.Role.values, default=ApiKey.Role.CLIENT)
        parser.add_argument(
            "--client",
            default="",
            help="the client that it belongs to; by default, the client of the key's name",
        )
        parser.add_argument(
            "--webhook-url", default="", help="where to send every status change of its bots"
        )

    @transaction.atomic
    def handle(self, *args: Any, **options: Any) -> None:
        """Show the key before its commit: a key that was never shown must not be in use."""
        try:
            key = create_api_key(
                name=options["name"],
                role=options["role"],
                webhook_url=options["webhook_url"],
                client=options["client"],
            )
        except (NameIsTaken, ValueError) as error:
            raise CommandError(str(error)) from None
        made = ApiKey.objects.select_related("client").get(key_hash=hash_of(key))
        # Only the key is on stdout, where scripts read it. `str`: not in the red of errors.
        self.stderr.write(f"API key {made.name} of client {made.client}, role {made.role}:", str)
        self.stdout.write(key)
        for endpoint in WebhookEndpoint.objects.filter(api_key__key_hash=hash_of(key)):
            self.stderr.write(f"The secret of its webhooks, also shown once: {secret_of(endpoint)}")
        self.stdout.flush()
