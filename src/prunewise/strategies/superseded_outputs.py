"""Superseded outputs: as superseded file operations, and what shell commands read and change counts too."""

from __future__ import annotations

from prunewise.strategies.superseded import Superseded


class SupersededOutputs(Superseded):
    """Knows the file tools of the vocabulary, and reads commands."""

    reads_commands = True
