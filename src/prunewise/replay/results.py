"""What a replay finds, session by session, as plain values: small, complete, and the same on any machine.

A row holds all that reports and totals need, so that sessions can be replayed anywhere, in any order,
and put together afterwards. Texts and paths are only in `source`, `project`, `warnings` and `worst`.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from prunewise.replay.harness import Found
from prunewise.replay.timeline import Timeline


class WorstRecall(msgspec.Struct, frozen=True, rename="camel"):
    """One of the losses that a person should look at."""

    policy: str
    epoch: int
    call: int
    """The LLM call of the epoch at which it is missed."""
    message: int
    part: int
    tokens: int
    kind: str
    key: str
    """What was missed."""
    serves: int
    strategy: str


class Missed(msgspec.Struct, frozen=True, rename="camel"):
    """Information loss: recalls (blocks that would have had to come back) and faults (needs not met)."""

    blocks: int = 0
    tokens: int = 0
    recalls: int = 0
    faults: int = 0
    recalls_by_kind: Mapping[str, int] = {}


class Detected(msgspec.Struct, frozen=True, rename="camel"):
    """One policy on one session where recalls are those that the detector finds: the likeliest figure."""

    cost: float
    """As in `Figures`, recalls not charged. A policy that learns from recalls cuts differently here."""
    suffix_cost: float
    recall_cost: float
    breaks: int
    missed: Missed
    dollars: float | None = None
    """The cost with its recalls, where the price is known."""

    @property
    def net_cost(self) -> float:
        """The cost under the provider's rules, recalls charged."""
        return self.cost + self.recall_cost


class Figures(msgspec.Struct, frozen=True, rename="camel"):
    """One policy on one session. Costs are in base input tokens, over all its LLM calls.

    Recalls are those that the upper bound of need finds, so that what is saved is the lower figure.
    """

    policy: str
    cost: float
    """The input's cost under the provider's own rules, lookback included, recalls not charged."""
    suffix_cost: float
    """The same where any unchanged beginning stays cached."""
    recall_cost: float
    """What its recalls would have cost, to be added to either."""
    dollars: float | None
    """The cost with its recalls, where the price is known."""
    own_optimum: float | None
    """The least suffix cost with the same supply, in hindsight; None where it was not asked for."""
    breaks: int
    """How often it changed what was cached."""
    peak: float
    """The largest request, in tokens."""
    final: float
    """The last request, in tokens."""
    removed: int
    """What is out of the last request of each epoch, in estimated tokens."""
    removed_by_strategy: Mapping[str, int]
    removed_by_tool: Mapping[str, int]
    compactions_avoided: int
    calls_gained: float
    """How many more LLM calls the room would have held, at the session's own pace."""
    missed: Missed = Missed()
    missed_at_random: Missed = Missed()
    missed_oldest_first: Missed = Missed()
    missed_largest_first: Missed = Missed()
    detected: Detected | None = None
    """The same under the detector; None where losses were not looked for, or knowing the future."""

    @property
    def net_cost(self) -> float:
        """The cost under the provider's rules, recalls charged."""
        return self.cost + self.recall_cost


class SessionRow(msgspec.Struct, frozen=True, rename="camel", tag="session", tag_field="row"):
    """One session."""

    source: str
    session: str
    project: str
    format: str
    model: str
    provider: str
    started: float | None
    """Seconds since the epoch, where known."""
    lineage: str
    """A digest of how the session began: resumed copies and forks of one conversation share it."""
    bytes: int
    llm_calls: int
    """Its own: those that another session counts are not among them."""
    copied: int
    """LLM calls that it holds copies of, and that another session counts."""
    aside: int
    """LLM calls on other branches of it, which are not replayed."""
    tool_calls: int
    tool_errors: int
    compactions: int
    warmth: str
    """What decided what was cached: recorded usage, or the time to live."""
    prefix: float
    """The fixed prefix, in tokens."""
    scale: float
    """Tokens per estimated token."""
    baseline_error: float | None
    """How far the simulated baseline is from recorded usage, as a share; None without usage."""
    excluded: bool
    """Whether that is too far for totals."""
    price_known: bool
    candidates: tuple[Found, ...]
    """The documented harness's."""
    figures: tuple[Figures, ...]
    worst: tuple[WorstRecall, ...] = ()
    warnings: tuple[str, ...] = ()
    timeline: Timeline | None = None
    """Where it was asked for, of sessions of some length."""


class ErrorRow(msgspec.Struct, frozen=True, rename="camel", tag="error", tag_field="row"):
    """A file that could not be replayed."""

    source: str
    reason: str
    bytes: int = 0


Row = SessionRow | ErrorRow
