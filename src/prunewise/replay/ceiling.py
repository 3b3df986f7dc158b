"""The ceiling: what pruning of whole results could save with no loss, knowing the whole session.

Each result goes out in full at least once, and goes, in hindsight, right after the last need whose newest
source it is; when to cut is the hindsight optimum for these candidates. No policy knows either. It is no
bound: a policy that recalls what it cut too early, or cuts failed inputs too, can come out above it.
"""

from __future__ import annotations

from collections.abc import Sequence

from prunewise.recording import Epoch
from prunewise.replay.needs import UPPER, Need, Ruler
from prunewise.replay.optimum import Candidate
from prunewise.tokens import DOCUMENTED
from prunewise.transcript import ToolResult

MARKER_TOKENS = 25
"""What stays of each result."""
LEAST_TOKENS = 60
"""Smaller results stay."""


def candidates(epoch: Epoch, needs: Sequence[Need], ruler: Ruler = UPPER) -> list[Candidate]:
    """What could go from one epoch without a loss by a ruler, and from which LLM call on."""
    needed: dict[tuple[int, int], int] = {}
    for need in needs:
        if ruler.finds(need):
            place = (need.newest.position, need.newest.part)
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
