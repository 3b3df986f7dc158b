"""What brings a worker down, in a module that it can import."""

import os

from prunewise.recording import Recording
from prunewise.replay.corpus import Selection, Source


class Deadly(Selection, frozen=True):
    """Ends the process that looks at a file of this name, without a word."""

    name: str = "deadly"

    def takes(self, recording: Recording, source: Source) -> bool:  # noqa: ARG002
        if self.name in source.name:
            os._exit(9)
        return True
