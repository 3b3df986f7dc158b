"""Superseded file operations, as far as file tools tell: shell commands are not read."""

from __future__ import annotations

from prunewise.strategies.superseded import Superseded


class SupersededFileOps(Superseded):
    """Knows the file tools of the vocabulary."""
