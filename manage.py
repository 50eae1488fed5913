#!/usr/bin/env python
import os
import sys

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "botpool.settings")
    try:
        from botpool.runtime.command_line import main

        main(sys.argv)
    except KeyboardInterrupt:  # also during the imports, which take a second or more
        raise SystemExit(130) from None
