"""What the paid lane may take out, and from which LLM call on. Knows no message and no cut point."""

from __future__ import annotations

import msgspec

from prunewise.engine import Proposal

STALE = "stale-outputs"
ERRORS = "error-purge"


class Candidate(msgspec.Struct, frozen=True):
    """What may go from some LLM call on."""

    proposal: Proposal
    sort: str
    paths: tuple[str, ...]
    """The files that it shows or changes."""
    born: int
    """The LLM call at which it was first sent."""
    since: int
    """The LLM call from which on it may go."""

    @property
    def position(self) -> int:
        """The message that changes."""
        return self.proposal.position
