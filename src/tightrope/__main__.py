"""``python -m tightrope`` is the command."""

import sys

from tightrope.cli import main

sys.exit(main())
