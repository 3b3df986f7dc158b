"""The command line. It needs the extra `cli`, and says so where that is missing.

Nothing of the extra is imported here, so that the message can be given.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.util import find_spec

_EXTRA = ("click", "rich", "portalocker", "psutil")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and give the exit code: 0 done, 1 the input is at fault, 2 usage, 130 interrupted.

    `arguments` are those of the process by default.
    """
    try:
        if not all(find_spec(name) for name in _EXTRA):
            sys.stderr.write("prunewise's command line needs its extra: pip install 'prunewise[cli]'\n")
            return 1
        from prunewise.cli.program import run

        return run(arguments)
    except KeyboardInterrupt:  # before the program could see to it
        return 130
