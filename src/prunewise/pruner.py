"""Policy and Pruner: the engine over one conversation, request by request.

A policy is what to go by: immutable, shared by any number of conversations. A pruner is one
conversation: it takes each request as the host would send it, sees what is new, and gives the
request to send instead. Messages are treated as immutable: a host that changes one passes a new object.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from prunewise import formats, ledger, recall
from prunewise.engine import Engine, Proposal, Rules
from prunewise.errors import RecallError, RefusedError
from prunewise.formats import Format, Native
from prunewise.gates import Batch, Gate, Verdict, documented
from prunewise.ledger import Decision, Entry, Restore, Savings, Target
from prunewise.listing import Listed, listing
from prunewise.markers import reference_in
from prunewise.masking import Output, cancels_compaction, engages
from prunewise.plan import Masked, Plan
from prunewise.settings import DEFAULTS, Settings
from prunewise.stores import Original, Store
from prunewise.stores.memory import Memory
from prunewise.tokens import DOCUMENTED, Estimator
from prunewise.transcript import (
    SHELL_OUTPUT,
    TOOL_INPUT,
    TOOL_RESULT,
    Edit,
    Exchange,
    Message,
    Text,
    ToolCall,
    ToolKind,
    ToolResult,
    Transcript,
    Usage,
)

if TYPE_CHECKING:
    from pathlib import Path

SettingsLike: TypeAlias = "Settings | Mapping[str, Any] | str | Path | None"


class PrunewiseWarning(UserWarning):
    """Something went wrong and the original request went out; said once a conversation."""


class Policy:
    """What to prune by: settings, the gate, prices and the estimator. Immutable; share it."""

    __slots__ = ("problems", "rules")

    def __init__(
        self,
        settings: SettingsLike = None,
        prices: object | None = None,
        *,
        gate: Gate = documented,
        estimator: Estimator = DOCUMENTED,
    ) -> None:
        """`settings` is a Settings, a mapping in the JSON shape of the configuration file, or a path to one.

        Raises:
            SettingsError: a path that is not there or does not parse. Single broken values become
                defaults, and `problems` says so.
        """
        found, problems = _resolve(settings)
        self.rules = Rules(found, gate, estimator, prices)
        self.problems: tuple[str, ...] = tuple(problems)

    @property
    def settings(self) -> Settings:
        """The settings it goes by."""
        return self.rules.settings


class Projected(msgspec.Struct, frozen=True):
    """What one request became."""

    request: Any
    """What to send: the very object that came in where nothing changed."""
    edits: tuple[Edit, ...] = ()
    """All edits in it, by position; their messages are the only ones that are new objects."""
    decisions: tuple[Decision, ...] = ()
    """The decisions that this request added to the ledger."""
    verdict: Verdict | None = None
    saved: int = 0
    """How much smaller the request is than without pruning, in estimated tokens."""
    masked: int = 0
    """How many of the edits are masking's."""
    changed: bool = False
    """Whether the edits differ from the request before, so that the cached prefix breaks."""
    error: str | None = None
    """Why the original went out after all, where something failed."""


class CompactionCheck(msgspec.Struct, frozen=True):
    """The compaction check's answer, in tokens."""

    cancel: bool
    before: int
    after: int
    limit: int


class Stats(msgspec.Struct, frozen=True):
    """What pruning has come to in this conversation, in estimated tokens."""

    raw_tokens: int
    effective_tokens: int
    saved_tokens: int
    standing: int
    masked: int
    removed_by_strategy: Mapping[str, int]
    """Cumulative, from the ledger."""
    cache_breaks: int
    """How many requests changed something that had been sent before."""


class Pruner:
    """One conversation under one policy."""

    def __init__(
        self,
        format: str | Format = "pi",
        policy: Policy | None = None,
        store: Store | None = None,
        conversation: str = "",
        *,
        cwd: str | None = None,
    ) -> None:
        """Without a store the ledger and the originals live in memory, as long as this object."""
        self.format = formats.named(format) if isinstance(format, str) else format
        self.policy = policy or Policy()
        self.store: Store = store or Memory(conversation)
        self.engaged = False
        """Whether masking has engaged; it stays so until the conversation gets smaller."""
        self.cache_breaks = 0
        self._cwd = cwd
        self._ledger = ledger.fold(self.store.ledger())
        self._natives: list[Native] = []
        self._ids: list[str] = []
        self._has_ids = False
        self._edits: tuple[Edit, ...] = ()
        self._edited: dict[int, Native] = {}
        self._sent = 0
        self._requests: list[tuple[int, int]] = []
        self._unseen = range(0)
        self._called_at: float | None = None
        self._observed: Usage | None = None
        self._warned = False
        self._engine = self._fresh_engine()

    # ---- the request

    def prune(self, messages: Sequence[Native], *, now: float | None = None) -> list[Native]:
        """The messages to send instead: list in, list out; untouched messages are the same objects."""
        return list(self.project(messages, now=now).request)

    def project(
        self,
        request: Any,
        *,
        ids: Sequence[str] | None = None,
        now: float | None = None,
        window: int | None = None,
        reserve: int | None = None,
    ) -> Projected:
        """What to send instead of `request`, a list of messages or a body that holds one.

        `ids` are the messages' ids, where the host knows them; `now` seconds since the epoch; `window`
        and `reserve` the model's, in tokens, else those of the settings. Whatever goes wrong, the
        original comes back with `error` set, and one warning is given.
        """
        try:
            return self._project(request, ids, time.time() if now is None else now, window, reserve)
        except Exception as error:  # noqa: BLE001 - the host's request must go out, whatever it is
            self._warn(f"request goes out unpruned: {error}")
            self._natives, self._ids = [], []
            self._restart(0)
            return Projected(request, error=f"{type(error).__name__}: {error}")

    def plan(
        self,
        request: Any,
        *,
        ids: Sequence[str] | None = None,
        window: int | None = None,
        reserve: int | None = None,
    ) -> Plan:
        """What `project` would do now, with nothing recorded; see `prunewise.plan`."""
        return self._twin()._planned(request, ids, window, reserve)  # noqa: SLF001 - one of these

    def _planned(
        self, request: Any, ids: Sequence[str] | None, window: int | None, reserve: int | None
    ) -> Plan:
        self.read(request, ids=ids)
        engine, settings = self._engine, self.policy.settings
        verdict = engine.verdict() if settings.enabled else None
        proposals = engine.proposals
        saved = engine.removed_tokens
        window = settings.window if window is None else window
        if verdict is not None and verdict.accepted:
            saved += verdict.tokens_removed
        if window is not None and settings.pruning.enabled:
            if verdict is not None and verdict.accepted:
                for proposal in proposals:
                    engine.preview(proposal)
            self._masks(window, settings.reserve if reserve is None else reserve)
            saved = engine.removed_tokens
        masked = [
            Masked(call, kind, place[0], engine.saving_at(place))
            for (call, kind), place in engine.masked.items()
        ]
        return Plan(
            self.format.name,
            len(engine.transcript),
            engine.transcript.state,
            engine.total_tokens,
            proposals,
            verdict,
            tuple(self._ledger.standing.values()),
            tuple(sorted(masked, key=lambda one: one.position)),
            saved,
        )

    def _twin(self) -> Pruner:
        """Another pruner that stands where this one does, for trying something out."""
        twin = Pruner(self.format, self.policy, self.store, cwd=self._cwd)
        twin._stand_where(self)
        return twin

    def _stand_where(self, other: Pruner) -> None:
        state = vars(other)
        for name in ("engaged", "_ledger", "_has_ids", "_unseen"):
            setattr(self, name, state[name])
        for name in ("_natives", "_ids", "_requests"):
            setattr(self, name, list(state[name]))
        seen: Engine = state["_engine"]
        self._start_over(seen, len(seen.transcript))

    def read(self, request: Any, *, ids: Sequence[str] | None = None) -> None:
        """Take a request in without pruning it: for a person's own decisions, before anything is sent."""
        self._read(list(self.format.messages(request)), None if ids is None else list(ids))

    @property
    def transcript(self) -> Transcript:
        """The messages that it has read."""
        return self._engine.transcript

    def _warn(self, text: str) -> None:
        if not self._warned:
            self._warned = True
            warnings.warn(text, PrunewiseWarning, stacklevel=4)

    def _project(
        self, request: Any, ids: Sequence[str] | None, now: float, window: int | None, reserve: int | None
    ) -> Projected:
        natives = list(self.format.messages(request))
        self._read(natives, None if ids is None else list(ids))
        settings = self.policy.settings
        decisions: tuple[Decision, ...] = ()
        verdict = error = None
        if settings.enabled:
            verdict = self._engine.verdict(
                seconds_since_call=None if self._called_at is None else now - self._called_at
            )
            if verdict.accepted and self._engine.has_proposals:
                try:
                    decisions = self._record(self._engine.proposals, now)
                except Exception as failure:  # noqa: BLE001 - what cannot be recorded is not done
                    error = f"{type(failure).__name__}: {failure}"
                    self._warn(f"decisions could not be recorded, so nothing new is pruned: {failure}")
        window = settings.window if window is None else window
        if window is not None and settings.pruning.enabled:
            self._mask(window, settings.reserve if reserve is None else reserve)
        engine = self._engine
        changed = self._note_changes()
        self._sent = len(natives)
        self._requests = [*self._answered(), (len(natives), engine.removed_tokens)]
        outgoing = self._outgoing(natives)
        return Projected(
            self.format.replace(request, outgoing) if engine.edits else request,
            self._edits,
            decisions,
            verdict,
            engine.removed_tokens,
            len(engine.masked),
            changed,
            error,
        )

    def _note_changes(self) -> bool:
        """Bring the list of edits up to date; whether anything that had gone out before is different now."""
        engine = self._engine
        if not engine.touched:
            return False
        before = self._edits
        self._edits = tuple(
            edits[part] for _, edits in sorted(engine.edits.items()) for part in sorted(edits)
        )
        sent = self._sent
        broken = min(engine.touched) < sent and _ahead_of(before, sent) != _ahead_of(self._edits, sent)
        self.cache_breaks += broken
        return broken

    def _outgoing(self, natives: Sequence[Native]) -> list[Native]:
        """The messages with the edits in place. An edited message is made once and goes out again so."""
        engine, edited = self._engine, self._edited
        for position in engine.touched:
            edits = engine.edits.get(position)
            if edits is None:
                edited.pop(position, None)
            else:
                self._keep_standing(position, edits)
                edited[position] = self.format.apply(
                    natives[position], [edits[part] for part in sorted(edits)]
                )
        engine.touched.clear()
        outgoing = list(natives)
        for position, message in edited.items():
            outgoing[position] = message
        return outgoing

    def _read(self, natives: Sequence[Native], ids: Sequence[str] | None) -> None:
        """Bring the engine to these messages: only what is new, where the rest is as it was."""
        known = len(self._natives)
        kept, told_anew = self._common(natives, ids)
        size = 0
        if kept < known:
            size = self._raw_tokens()
            self._restart(kept)
            self._unseen = range(kept, len(natives))
        new = natives[kept:]
        names = [f"m{position}" for position in range(kept, len(natives))] if ids is None else ids[kept:]
        read = self.format.read
        messages = [read(native, name) for native, name in zip(new, names, strict=True)]
        self._engine.extend(self._with_observed(messages))
        for position in told_anew:
            self._natives[position] = natives[position]
        self._engine.touched.update(self._edited.keys() & set(told_anew))
        del self._natives[kept:], self._ids[kept:]
        self._natives += new
        self._ids += names
        self._has_ids = ids is not None
        if kept < known and self._raw_tokens() < size:
            self.engaged = False
            if self._engine.masked:
                self._restart(len(natives))

    def _with_observed(self, messages: list[Message]) -> list[Message]:
        """The messages, the usage that was observed on the first new answer, where it carries none."""
        usage, self._observed = self._observed, None
        for position, message in enumerate(messages):
            if usage is not None and message.role == "assistant":
                if message.usage is None:
                    messages[position] = msgspec.structs.replace(message, usage=usage)
                break
        return messages

    def _common(self, natives: Sequence[Native], ids: Sequence[str] | None) -> tuple[int, list[int]]:
        """How many messages from the start are as they were, and which of them are so in another shape."""
        known = len(self._natives)
        told_anew: list[int] = []
        try:
            if (ids is None or ids[:known] == self._ids) and natives[:known] == self._natives:
                return known, told_anew
            for position, (old, new) in enumerate(zip(self._natives, natives, strict=False)):
                if ids is not None and ids[position] != self._ids[position]:
                    return position, told_anew
                if old is not new and old != new:
                    if not self.format.same(old, new):
                        return position, told_anew
                    told_anew.append(position)
        except RecursionError:  # nested beyond what can be compared
            return 0, []
        return min(known, len(natives)), told_anew

    def _restart(self, kept: int) -> None:
        """Start the engine again over the first `kept` messages, with what stands and what is masked."""
        for output, reference in self._start_over(self._engine, kept):
            self._keep_masked(output, reference)
        self._edits = tuple(edit for edit in self._edits if edit.position < kept)
        self._engine.touched.update(edit.position for edit in self._edits)
        self._edited.clear()
        self._sent = min(self._sent, kept)
        self._requests = [request for request in self._requests if request[0] < kept]

    def _start_over(self, before: Engine, kept: int) -> list[tuple[Output, str]]:
        """A fresh engine over the first `kept` messages of another one. What is masked in them stays so,
        and no strategy proposes it; gives what was masked, for the store to keep.
        """
        messages = before.transcript.messages[:kept]
        end = kept
        if self.policy.settings.pruning.protect_current_turn:
            users = (at for at in range(len(messages) - 1, -1, -1) if messages[at].role == "user")
            end = next(users, 0)
        decided = self._ledger.standing.keys() | self._ledger.restored
        masked = {
            target: place
            for target, place in (before.masked.items() if self.engaged else ())
            if place[0] < end and target not in decided
        }
        engine = self._engine = self._fresh_engine()
        engine.masked.update(masked)
        engine.extend(messages)
        return engine.mask() if masked else []

    def _fresh_engine(self) -> Engine:
        engine = Engine(
            self.policy.rules,
            self.store.reference,
            cwd=self._cwd,
            vocabulary=self.format.vocabulary,
            recalled=self._recalled,
        )
        engine.follow(self._ledger)
        return engine

    def _recalled(self, asked: str, exchange: Exchange) -> str | None:
        """The reference of the original that a recall returned, however deep recalls were recalled."""
        reference = asked.strip().removesuffix(recall.FULL)
        try:
            message = self.store.original(reference).message
        except RecallError:
            return None
        engine = self._engine
        for earlier in engine.recalls:
            if (
                earlier.order < exchange.order
                and engine.transcript.messages[earlier.result_position].id == message
            ):
                return engine.reference_of(earlier)
        return self.store.reference(message, reference)

    def _record(self, proposals: Sequence[Proposal], now: float) -> tuple[Decision, ...]:
        """Keep the originals, write the decisions down, and only then let them stand."""
        entries = self._decided(proposals, _iso(now))
        self._write(entries)
        return tuple(entry for entry in entries if isinstance(entry, Decision))

    def _decided(self, proposals: Sequence[Proposal], at: str) -> list[Entry]:
        """The entries for these proposals, each a decision and what it saves; the originals are kept."""
        entries: list[Entry] = []
        for proposal in proposals:
            decision = self._decision(proposal, at)
            saved = proposal.tokens_removed
            entries += decision, Savings(decision.idempotency_key, decision.strategy_id, saved, at)
        return entries

    def _decision(self, proposal: Proposal, at: str) -> Decision:
        exchange = self._engine.transcript.exchange(proposal.call)
        assert exchange is not None
        message = self._engine.transcript.messages[exchange.result_position]
        self._keep(exchange, proposal.kind, proposal.reference)
        return ledger.decide(
            proposal.strategy,
            proposal.call,
            proposal.kind,
            reason=proposal.reason,
            placeholder=proposal.marker,
            created_at=at,
            reference=proposal.reference,
            entry_id=message.id if self._has_ids else None,
            session_id=self.store.conversation or None,
        )

    def _keep(self, exchange: Exchange, kind: ToolKind, reference: str) -> None:
        """Have the store hold what a marker with this reference stands for.

        A recalled output's marker has the reference of its original: that one is held already, and what
        the recall showed of it must not take its place.
        """
        message = self._engine.transcript.messages[exchange.result_position].id
        if reference != self.store.reference(message, exchange.call.id):
            return
        images: tuple[Any, ...] = ()
        if exchange.result.has_image:
            images = self.format.images(self._natives[exchange.result_position], exchange.result_part)
        purged = exchange.call.arguments if kind == TOOL_INPUT else None
        self.store.keep(
            reference, Original(message, exchange.call.name, exchange.result.content, purged, images)
        )

    def _keep_standing(self, position: int, edits: Mapping[int, Edit]) -> None:
        """The same for decisions of before, which may stand for another output since a message was edited."""
        transcript = self._engine.transcript
        for edit in edits.values():
            part = transcript.messages[position].parts[edit.part]
            if edit.kind == SHELL_OUTPUT or not isinstance(part, (ToolCall, ToolResult)):
                continue
            call_id = part.id if isinstance(part, ToolCall) else part.call_id
            exchange, reference = transcript.exchange(call_id), reference_in(edit.text)
            stands = (call_id, edit.kind) in self._ledger.standing
            if stands and exchange is not None and reference is not None:
                self._keep(exchange, edit.kind, reference)

    def _keep_masked(self, output: Output, reference: str) -> None:
        if output.exchange is not None:
            self._keep(output.exchange, TOOL_RESULT, reference)
        elif output.shell is not None:
            self.store.keep(reference, Original(output.message, "bash", (Text(output.shell.output),)))

    def _write(self, entries: Sequence[Entry]) -> None:
        self.store.append(entries)
        self._ledger = ledger.fold(self.store.ledger())
        if not self._engine.follow(self._ledger):
            self._restart(len(self._natives))

    # ---- masking

    def _mask(self, window: int, reserve: int) -> None:
        for output, reference in self._masks(window, reserve):
            self._keep_masked(output, reference)

    def _masks(self, window: int, reserve: int) -> list[tuple[Output, str]]:
        """Mask what may be masked, where masking has engaged: what was masked now, for the store to keep."""
        engine = self._engine
        engine.context.advance(engine.transcript)
        if not self.engaged:
            self.engaged = engages(self._context_tokens(), window, reserve)
        return engine.mask() if self.engaged else []

    def _raw_tokens(self) -> int:
        """The messages without any pruning, as the host estimates them."""
        context = self._engine.context
        context.advance(self._engine.transcript)
        return context.raw

    def _context_tokens(self) -> int:
        """The context without further masking, as far as it is known. A usage that answered a request of
        this pruner counts, and what was out of that request and is back since; any other one may be
        that of a pruned request, and never prices a raw one.
        """
        context = self._engine.context
        answered = self._answered()
        if not answered:
            return max(context.estimate, context.raw)
        return context.estimate + max(answered[0][1] - self._engine.removed_tokens, 0)

    def _answered(self) -> list[tuple[int, int]]:
        """The last request of this pruner that a valid usage answered: its length and what was out of it."""
        at = self._engine.context.usage_position
        return [] if at in self._unseen else [one for one in self._requests if one[0] <= at][-1:]

    def check_compaction(self, window: int, reserve: int) -> CompactionCheck:
        """Whether a compaction that the host is about to run on its threshold can be left out, in tokens:
        what pruning can take out, less what the last usage lacks already. It speaks for the messages
        that were read last; where none were, nothing is left out.
        """
        engine = self._engine
        engine.context.advance(engine.transcript)
        before = self._context_tokens()
        already = sum(removed for _, removed in self._answered())
        savings = max(engine.removed_tokens - already, 0) + engine.unmasked_saving
        return CompactionCheck(
            bool(self._natives) and cancels_compaction(before, savings, window, reserve),
            before,
            before - savings,
            window - 2 * reserve,
        )

    def compacted(self) -> None:
        """The host has compacted: masking starts again from raw. Noticed by itself where the size drops."""
        self.engaged = False
        self._sent, self._requests = 0, []
        self._restart(len(self._natives))

    def observe(self, usage: Usage | None = None, *, now: float | None = None) -> None:
        """An answer came back, with this usage. A host whose messages carry usage need not pass it."""
        self._observed = usage
        self._called_at = time.time() if now is None else now

    # ---- a person's own decisions, and looking back

    def listing(self) -> list[Listed]:
        """Every part of the messages read that a person may prune or restore, oldest first."""
        return listing(self._engine, self._ledger, self.store.ledger())

    def preview(self, targets: Sequence[Target]) -> Verdict:
        """What it would cost and save to prune these together: the gate's figures, whatever its mode.

        Raises:
            RefusedError: as `prune_call`.
        """
        engine, rules = self._engine, self.policy.rules
        proposals = sorted((engine.manual(*target) for target in targets), key=lambda one: one.position)
        batch = Batch(
            lambda: proposals,
            proposals[0].position if proposals else None,
            sum(one.tokens_removed for one in proposals),
            engine.tail_tokens,
            engine.transcript.state,
            engine.transcript.sent,
            calls=engine.transcript.llm_calls,
            prices=rules.prices,
        )
        return rules.gate(batch, msgspec.structs.replace(rules.settings.gate, mode="always-apply"))

    def decide(
        self, prune: Sequence[Target] = (), restore: Sequence[Target] = (), *, now: float | None = None
    ) -> tuple[Entry, ...]:
        """Prune and restore at a person's wish, all in one addition to the ledger: the entries added.

        Prunes are past floor, recency and gate.

        Raises:
            RefusedError: one to prune is not there, protected, pruned already, or would not get smaller;
                or nothing stands for one to restore. Nothing is added then.
        """
        at = _iso(time.time() if now is None else now)
        restores = [
            Restore(decision.idempotency_key, at)
            for decision in self._ledger.active
            if decision.target in restore
        ]
        for call_id, kind in restore:
            if (call_id, kind) not in self._ledger.standing:
                raise RefusedError(f"{call_id}: nothing is pruned under this key or call id")
        entries = [*restores, *self._decided([self._engine.manual(*target) for target in prune], at)]
        self._write(entries)
        return tuple(entries)

    def prune_call(self, call_id: str, kind: ToolKind = TOOL_RESULT, *, now: float | None = None) -> Decision:
        """Prune one output (or a call's input) at a person's wish, past floor, recency and gate.

        Raises:
            RefusedError: it is not there, protected, pruned already, or would not get smaller.
        """
        proposal = self._engine.manual(call_id, kind)
        return self._record([proposal], time.time() if now is None else now)[0]

    def restore(self, key: str, *, now: float | None = None) -> tuple[Restore, ...]:
        """Undo what stands for a key: a decision's idempotency key, or a call id for all of its targets.

        Raises:
            RefusedError: nothing stands for it.
        """
        at = _iso(time.time() if now is None else now)
        restores = tuple(
            Restore(decision.idempotency_key, at)
            for decision in self._ledger.active
            if key in (decision.idempotency_key, decision.correlation.tool_call_id)
        )
        if not restores:
            raise RefusedError(f"{key}: nothing is pruned under this key or call id")
        self._write(restores)
        return restores

    def recall(self, reference: str) -> str:
        """The full output that a marker's reference leads to; see `prunewise.recall.recall`."""
        return recall.recall(self.store, reference)

    def follow(self) -> None:
        """Read the ledger again: another branch, or another process has added to it."""
        self._ledger = ledger.fold(self.store.ledger())
        if not self._engine.follow(self._ledger):
            self._restart(len(self._natives))

    @property
    def stats(self) -> Stats:
        """What the last request came to, and what the ledger says in all."""
        engine = self._engine
        return Stats(
            engine.total_tokens,
            engine.total_tokens - engine.removed_tokens,
            engine.removed_tokens,
            engine.edit_count - len(engine.masked),
            len(engine.masked),
            self._ledger.removed_by_strategy,
            self.cache_breaks,
        )


def _resolve(settings: SettingsLike) -> tuple[Settings, list[str]]:
    if settings is None:
        return DEFAULTS, []
    from prunewise.stores.settings_files import resolve  # costs more to import than all of the engine

    return resolve(settings)


def _iso(now: float) -> str:
    """Seconds since the epoch as the ledger writes a time."""
    moment = datetime.fromtimestamp(now, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _ahead_of(edits: Sequence[Edit], position: int) -> list[Edit]:
    return [edit for edit in edits if edit.position < position]


def plan(
    messages: Sequence[Native],
    format: str | Format = "pi",
    settings: SettingsLike = None,
    cwd: str | None = None,
    *,
    store: Store | None = None,
    ids: Sequence[str] | None = None,
    window: int | None = None,
    reserve: int | None = None,
) -> Plan:
    """What would go if these messages were about to be sent.

    Args:
        messages: native messages, in order, as the host would send them; never changed.
        format: their format.
        settings: a Settings, a mapping in the JSON shape of the configuration file, or a path to one.
        cwd: the working directory of the session, for relative paths.
        store: the conversation's store, whose ledger stands; it is read only.
        ids: the messages' ids, where the host knows them.
        window: the model's context window, in tokens, for masking.
        reserve: the head room before compaction, in tokens.

    Raises:
        InputError: the format is not known.
        SettingsError: the settings file cannot be read.
    """
    pruner = Pruner(format, Policy(settings), store, cwd=cwd)
    return pruner.plan(messages, ids=ids, window=window, reserve=reserve)
