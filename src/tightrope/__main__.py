"""python -m tightrope."""

import sys

from tightrope.cli import main

sys.exit(main())
