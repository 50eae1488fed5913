"""`python -m tests.chaos.rules`: the rules of the pool that the database of DATABASE_URL breaks.

A process of its own, because the checker does without Django."""

import os

import django


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "botpool.settings")
    django.setup()
    from tests.invariants import broken_rules

    for broken in broken_rules():
        print(broken)


if __name__ == "__main__":
    main()
