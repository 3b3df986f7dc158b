"""The ceiling: what pruning of whole results could save with no loss, knowing the whole session.

Each result goes, in hindsight, right after the last need event whose newest source it is (never before the
request after its first), and when to cut is the hindsight optimum for these candidates. No policy knows
either. What a policy saves beyond results that have been sent once (shortening them before, failed
inputs) is not in it, so a policy can come out above it.
"""

from __future__ import annotations

from collections.abc import Sequence

from prunewise.recording import Epoch
from prunewise.replay.needs import Need
from prunewise.replay.optimum import Candidate
from prunewise.tokens import DOCUMENTED
from prunewise.transcript import ToolResult

MARKER_TOKENS = 25
"""What stays of each result."""
LEAST_TOKENS = 60
"""Smaller results stay."""


def candidates(epoch: Epoch, needs: Sequence[Need]) -> list[Candidate]:
    """What could go from one epoch without a loss, and from which LLM call on."""
    needed: dict[tuple[int, int], int] = {}
    for need in needs:
        newest = need.places[need.count - 1]
        place = (newest.position, newest.part)
        needed[place] = max(needed.get(place, -1), need.call)
    found: list[Candidate] = []
    born = 0
    for position, message in enumerate(epoch.messages):
        while born < len(epoch.calls) and epoch.calls[born].position <= position:
            born += 1
        for index, part in enumerate(message.parts):
            if type(part) is not ToolResult:
                continue
            tokens = DOCUMENTED.content(part)
            eligible = max(born, needed.get((position, index), -1)) + 1
            if tokens >= LEAST_TOKENS and eligible < len(epoch.calls):
                found.append(Candidate(position, tokens - MARKER_TOKENS, eligible))
    return found
