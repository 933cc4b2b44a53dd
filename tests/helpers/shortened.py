"""The command as a process of its own, with fits that take seconds instead of minutes."""

import sys

from recordings import short_fits

from tightrope.cli import main

if __name__ == "__main__":
    with short_fits():
        sys.exit(main(sys.argv[1:]))
