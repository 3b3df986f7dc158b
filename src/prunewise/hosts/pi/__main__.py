"""`python -m prunewise.hosts.pi`: the engine process of one pi session, on standard input and output."""

import sys

from prunewise.hosts.pi.server import main

sys.exit(main())
