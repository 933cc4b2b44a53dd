"""The command as a process of its own, with fits that take seconds instead of minutes."""

import sys

from recordings import short

from tightrope.cli import main
from tightrope.posteriors import PRESETS

if __name__ == "__main__":
    PRESETS.update({name: short(name) for name in PRESETS})
    sys.exit(main(sys.argv[1:]))
