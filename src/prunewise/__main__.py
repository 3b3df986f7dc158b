"""`python -m prunewise`: the same as the command `prunewise`."""

import sys

from prunewise.cli import main

sys.exit(main())
