"""How every command starts: with the embedded PostgreSQL beneath it when none is named."""

from contextlib import nullcontext

from django.core.management import execute_from_command_line

# These talk to no database, or look after it themselves.
WITHOUT_DATABASE = {
    "",
    "check",
    "collectstatic",
    "coolify_simulator",
    "help",
    "runserver",
    "test",
    "up",
    "version",
    "--help",
    "--version",
    "-h",
}


def main(argv: list[str]) -> None:
    from django.conf import settings

    from botpool import postgres

    command = argv[1] if len(argv) > 1 else ""
    asks_for_help = "--help" in argv or "-h" in argv
    needs_database = command not in WITHOUT_DATABASE and not asks_for_help
    embedded = needs_database and settings.EMBEDDED_POSTGRES
    try:
        with postgres.running(settings.DATA_DIR) if embedded else nullcontext():
            execute_from_command_line(argv)
    except postgres.PostgresError as error:
        raise SystemExit(f"botpool: {error}") from None
