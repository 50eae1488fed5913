"""`python -m tests.chaos.rules`: print the rules of the pool that the database breaks.

This is a separate process because the checker does not use Django.
"""

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
