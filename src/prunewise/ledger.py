"""The append-only log of decisions, restores, savings and masking, and its folding into what stands now.

Entries have the shape of pi's `dynamic-context-pruning:*` custom entries, so that a session begun
with the TypeScript extension goes on here and the other way round. Fields of ours stand beside
theirs, and masking has entries of ours, which that extension passes over.

Knows no file and no clock: stores read and write entries, hosts say what time it is.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Literal

import msgspec

from prunewise.transcript import SHELL_OUTPUT, TOOL_INPUT, TOOL_RESULT, Kind, ToolKind

DECISION = "dynamic-context-pruning:decision"
RESTORE = "dynamic-context-pruning:restore"
STATS = "dynamic-context-pruning:stats"
MASKING = "prunewise:masking"
SENT_WHOLE = "prunewise:sent-whole"
MANUAL = "manual"
"""The strategy id of a prune that a person asked for."""

Target = tuple[str, ToolKind]
"""What a decision is about: a call id, and which part of its exchange."""


class Correlation(msgspec.Struct, frozen=True, rename="camel"):
    """How a decision finds its exchange."""

    type: Literal["toolCallId"]
    tool_call_id: str


class Decision(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A prune that was applied."""

    idempotency_key: str
    """`strategyId:kind:toolCallId`."""
    strategy_id: str
    correlation: Correlation
    kind: ToolKind
    reason: str = ""
    placeholder: str | None = None
    """The marker as it was sent; it goes out again exactly so."""
    created_at: str = ""
    """ISO 8601, UTC."""
    source: Literal["auto", "manual"] = "auto"
    reference: str | None = None
    """Ours: the recall reference that the placeholder carries."""
    entry_id: str | None = None
    """Ours: the id of the message that holds the result, within its conversation."""
    session_id: str | None = None
    """Ours: the conversation that issued the reference; a forked file keeps its parent's decisions."""
    request_id: str | None = None
    """Ours: the id of the last message of the request that it was made for; none on a person's."""

    @property
    def target(self) -> Target:
        """What it is about."""
        return (self.correlation.tool_call_id, self.kind)

    @property
    def decided_at(self) -> float | None:
        """`created_at` in seconds since the epoch; None where another program wrote what is no time."""
        return _time(self.created_at)


class Restore(msgspec.Struct, frozen=True, rename="camel"):
    """The undoing of a decision, by its key."""

    idempotency_key: str
    created_at: str = ""

    @property
    def restored_at(self) -> float | None:
        """`created_at` in seconds since the epoch; None where another program wrote what is no time."""
        return _time(self.created_at)


class Savings(msgspec.Struct, frozen=True, rename="camel"):
    """What one applied decision takes out of each request, in estimated tokens."""

    idempotency_key: str
    strategy_id: str
    tokens_removed: int
    applied_at: str = ""


class Mask(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """An output that masking replaced."""

    id: str
    """The call's id; of a shell command's output its message's."""
    kind: Kind
    placeholder: str
    """The marker as it was sent; it goes out again exactly so."""
    reference: str
    entry_id: str | None = None
    """The id of the message that holds the output."""

    @property
    def target(self) -> tuple[str, Kind]:
        """What it is about."""
        return (self.id, self.kind)


class Masking(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Masking engaged and replaced these outputs; or it ended, and nothing is masked any more."""

    engaged: bool
    masks: tuple[Mask, ...] = ()
    request_id: str | None = None
    """The id of the last message of the request in which they were replaced."""
    raw_tokens: int = 0
    """The size of that conversation without pruning; one that is smaller has been compacted since."""
    created_at: str = ""


class SentWhole(msgspec.Struct, frozen=True, rename="camel"):
    """Requests that the host sent without any edit, because the engine was late or not running."""

    request_ids: tuple[str, ...]
    """For each the id of its last message."""
    created_at: str = ""


Entry = Decision | Restore | Savings | Masking | SentWhole

_TYPES: dict[str, type[Entry]] = {
    DECISION: Decision,
    RESTORE: Restore,
    STATS: Savings,
    MASKING: Masking,
    SENT_WHOLE: SentWhole,
}


def _time(created_at: str) -> float | None:
    try:
        return datetime.fromisoformat(created_at).timestamp()
    except ValueError:
        return None


def decide(
    strategy: str,
    call_id: str,
    kind: ToolKind,
    *,
    reason: str,
    placeholder: str,
    created_at: str,
    reference: str | None = None,
    entry_id: str | None = None,
    session_id: str | None = None,
    request_id: str | None = None,
) -> Decision:
    """A decision with its key; `strategy` is `manual` for a person's."""
    return Decision(
        f"{strategy}:{kind}:{call_id}",
        strategy,
        Correlation("toolCallId", call_id),
        kind,
        reason,
        placeholder,
        created_at,
        "manual" if strategy == MANUAL else "auto",
        reference,
        entry_id,
        session_id,
        request_id,
    )


def to_data(entry: Entry) -> tuple[str, dict[str, Any]]:
    """The entry as pi stores it: its custom type and its data."""
    custom_type = next(name for name, kind in _TYPES.items() if isinstance(entry, kind))
    data = msgspec.to_builtins(entry)
    if isinstance(entry, Decision):
        data.setdefault("source", "auto")
    return custom_type, data


def from_data(custom_type: str, data: object) -> Entry | None:
    """Read one custom entry. None where the type is not the ledger's.

    Raises:
        msgspec.ValidationError: the entry has the ledger's type and not its shape.
    """
    kind = _TYPES.get(custom_type)
    return None if kind is None else msgspec.convert(data, kind)


class Ledger(msgspec.Struct, frozen=True):
    """What the entries of one branch come to.

    For each key its most recent decision or restore wins. `standing` has, for each target, the
    decision that is applied: of several keys on one target the one that began to stand first, since
    its marker is what has been sent. `restored` has the targets that were restored and do not stand.
    """

    standing: Mapping[Target, Decision]
    restored: frozenset[Target]
    active: tuple[Decision, ...] = ()
    """For each key that stands its decision; several may be about one target."""
    undone: tuple[tuple[Decision, Restore], ...] = ()
    """The decisions that stood until they were restored, each with its restore."""
    savings: tuple[Savings, ...] = ()
    engaged: bool = False
    """Whether masking has engaged."""
    raw_tokens: int = 0
    """The size of the conversation when something was masked last."""
    masks: Mapping[tuple[str, Kind], Mask] = {}
    """What masking has replaced, by target; where a decision stands or was restored, that counts instead."""
    request_id: str | None = None
    """The request that something was last decided or masked in, by the id of its last message."""
    markers: frozenset[tuple[tuple[str, Kind], str]] = frozenset()
    """Every text that has stood in for a target (a shell's without its name), restored ones too. A host may
    send one back as the output; nothing else that looks like a marker is one."""
    sent_whole: frozenset[str] = frozenset()
    """The requests that went out without any edit, by the ids of their last messages."""

    @property
    def removed_by_strategy(self) -> dict[str, int]:
        """Cumulative estimated tokens saved per strategy, as `stats` shows them."""
        totals: dict[str, int] = {}
        for entry in self.savings:
            totals[entry.strategy_id] = totals.get(entry.strategy_id, 0) + entry.tokens_removed
        return totals


EMPTY = Ledger({}, frozenset())


def fold(entries: Iterable[Entry]) -> Ledger:
    """Fold a branch's entries, oldest first, into what stands."""
    active: dict[str, Decision] = {}
    decided: dict[str, Decision] = {}
    restored_keys: set[str] = set()
    undone: list[tuple[Decision, Restore]] = []
    keys: defaultdict[Target, set[str]] = defaultdict(set)
    savings: list[Savings] = []
    engaged, raw_tokens = False, 0
    masks: dict[tuple[str, Kind], Mask] = {}
    request_id: str | None = None
    markers: set[tuple[tuple[str, Kind], str]] = set()
    sent_whole: set[str] = set()
    for entry in entries:
        match entry:
            case Decision():
                if entry.placeholder is not None:
                    markers.add((entry.target, entry.placeholder))
                active[entry.idempotency_key] = entry  # the dict keeps the order in which keys began to stand
                decided[entry.idempotency_key] = entry
                keys[entry.target].add(entry.idempotency_key)
                request_id = entry.request_id or request_id
            case Restore():
                undone += _undo(active, keys, entry)
                restored_keys.add(entry.idempotency_key)
            case Masking():
                engaged, raw_tokens = entry.engaged, entry.raw_tokens
                if not engaged:
                    masks = {}
                for mask in entry.masks:
                    masks[mask.target] = mask
                    shell = mask.kind == SHELL_OUTPUT  # a host that sends its marker back may name it anew
                    markers.add((("" if shell else mask.id, mask.kind), mask.placeholder))
                request_id = entry.request_id or request_id
            case SentWhole():
                sent_whole.update(entry.request_ids)
            case _:
                savings.append(entry)
    standing: dict[Target, Decision] = {}
    for decision in active.values():
        standing.setdefault(decision.target, decision)
    restored = {target for key in restored_keys if (target := target_of(key, decided)) is not None}
    return Ledger(
        standing=standing,
        restored=frozenset(restored - standing.keys()),
        active=tuple(active.values()),
        undone=tuple(undone),
        savings=tuple(savings),
        engaged=engaged,
        raw_tokens=raw_tokens,
        masks=masks,
        request_id=request_id,
        markers=frozenset(markers),
        sent_whole=frozenset(sent_whole),
    )


def _undo(
    active: dict[str, Decision], keys: Mapping[Target, set[str]], restore: Restore
) -> list[tuple[Decision, Restore]]:
    """Take out what a restore ends: with it, the decision, unless another one stands for its target. `keys`
    are those under which one may.
    """
    ended = active.pop(restore.idempotency_key, None)
    if ended is None:
        return []
    others = map(active.get, keys[ended.target])
    stands = any(one is not None and one.target == ended.target for one in others)
    return [] if stands else [(ended, restore)]


def target_of(key: str, decided: Mapping[str, Decision]) -> Target | None:
    """The target of an idempotency key: its decision's, else what the key itself says."""
    decision = decided.get(key)
    if decision is not None:
        return decision.target
    _, _, rest = key.partition(":")
    kind, _, call_id = rest.partition(":")
    if kind == TOOL_RESULT or kind == TOOL_INPUT:
        return (call_id, kind)
    return None
