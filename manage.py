#!/usr/bin/env python
import os
import sys

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "botpool.settings")
    from botpool.runtime.command_line import main

    main(sys.argv)
