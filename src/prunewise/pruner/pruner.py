"""Pruner: one conversation under one policy, and `plan`, its dry run.

Holds the pieces together: the messages that the host sends, the engine that reads them, what is on
record, the state of masking, and what goes out. The one place that asks the clock, where the host does
not say the time.
"""

from __future__ import annotations

import contextlib
import copy
import time
import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, cast

import msgspec

from prunewise import formats, recall
from prunewise.engine import Engine, Moment, Proposal
from prunewise.errors import ConflictError, PrunewiseWarning, RefusedError
from prunewise.formats import Format, Native
from prunewise.gates import Verdict
from prunewise.ledger import Decision, Entry, Ledger, Restore, Target
from prunewise.listing import Listed, listing
from prunewise.plan import Plan
from prunewise.priced import engine_for
from prunewise.pruner.accounting import Accounting
from prunewise.pruner.answers import Projected, Stats
from prunewise.pruner.clock import NOBODY, Caller, Clock, caller_in
from prunewise.pruner.dry_run import planned
from prunewise.pruner.engagement import CompactionCheck, Engagement
from prunewise.pruner.messages import Messages
from prunewise.pruner.policy import Policy, SettingsLike
from prunewise.pruner.projection import Projection
from prunewise.pruner.record import Record, Tried
from prunewise.stores import Store
from prunewise.stores.memory import Memory
from prunewise.transcript import TOOL_RESULT, Message, ToolKind, Transcript, Usage

_ATTEMPTS = 3
"""How often a step is tried while other processes add to the ledger."""


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
        engaged: bool = False,
        tells_compactions: bool = False,
        long_lived: bool = False,
    ) -> None:
        """Without a store the ledger and the originals live in memory, as long as this object.

        `engaged`: masking has engaged in this conversation before. `tells_compactions`: the host calls
        `compacted`; else a conversation that gets smaller counts as compacted. `long_lived`: the host asks
        for cache entries that live the longest time.
        """
        self.format = formats.named(format) if isinstance(format, str) else format
        self.policy = policy or Policy()
        self.store: Store = store or Memory(conversation)
        self.cache_breaks = 0
        self._cwd = cwd
        self._messages = Messages(self.format)
        self._record = Record(self.store, self.format, self._messages)
        self._projection = Projection(self.format)
        self._engagement = Engagement(engaged or self._ledger.engaged)
        self._tells_compactions = tells_compactions
        self._clock = Clock(long_lived=long_lived)
        self._accounting = Accounting(self.policy.rules)
        self._observed: Usage | None = None
        self._carry_usage = False
        """Whether the host's messages carry usage."""
        self._warned = False
        self._sent_under: tuple[Ledger, Caller] | None = None
        """What was on record when the messages at hand went out, and to whom; None until they have."""
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
        caller: Caller = NOBODY,
    ) -> Projected:
        """What to send instead of `request`, a list of messages or a body that holds one.

        `ids` are the messages' ids, where the host knows them; `now` seconds since the epoch; `window`
        and `reserve` the model's, in tokens, else those of the settings; `caller` the model that is to
        answer, and its tools, else those that a body names. Whatever goes wrong, the original comes back
        with `error` set, and one warning is given.
        """
        try:
            now = time.time() if now is None else now
            return self._project(request, ids, now, (window, reserve), caller)
        except Exception as error:  # noqa: BLE001 - the host's request must go out, whatever it is
            self._warn(f"request goes out unpruned: {error}")
            self._record.drop()
            self._restart(0)
            self._accounting.cut(0)
            return Projected(request, error=_named(error))

    def observe(self, usage: Usage | None = None, *, now: float | None = None) -> None:
        """A request was answered, with this usage. A host whose messages carry usage need not pass it; one
        that says nothing, or is no Usage, is left out.

        Not for a request that failed, nor for one beside the conversation (a summary, another agent's).
        """
        self._observed = usage if isinstance(usage, Usage) and usage.context_tokens else None  # pyright: ignore[reportUnnecessaryIsInstance]
        self._clock.answered(time.time() if now is None else now)

    def take_back(self) -> None:
        """What was projected last has not gone out. Tell this before anything else is read."""
        self._engagement.take_back(len(self._messages))
        self.cache_breaks -= self._projection.take_back(self._engine)
        self._accounting.take_back()
        self._sent_under = None

    def sent_whole(self, requests: Mapping[str, int], *, now: float | None = None) -> None:
        """These requests have gone out without any edit since the last one that was projected and sent: for
        the id of the last message of each its length in messages. Tell this before their answers are read.
        """
        self.cache_breaks += self._projection.sent_whole(self._engine)
        self._accounting.sent_whole.update(requests)
        self._engagement.sent_whole(requests.values())
        self._sent_under = None
        ledger = self._ledger
        new = set(requests) - ledger.sent_whole
        if new and (ledger.standing or ledger.masks):  # else there was nothing to be left in full
            self._add([self._record.sent_whole(sorted(new), time.time() if now is None else now)])
            self._commit()

    def kept_warm(self, *, now: float | None = None) -> None:
        """A request beside the conversation, which begins as the last one in it did, has used the cache: a
        cache warmer's, or a question about what was said.
        """
        self._clock.kept_warm(time.time() if now is None else now)

    def read(
        self,
        request: Any,
        *,
        ids: Sequence[str] | None = None,
        window: int | None = None,
        reserve: int | None = None,
    ) -> None:
        """Take a request in without pruning it: for a person's own decisions, before anything is sent.

        `ids`, `window` and `reserve` as in `project`.
        """
        self._tell_room(window, reserve)
        self._read(list(self.format.messages(request)), None if ids is None else list(ids))

    @property
    def transcript(self) -> Transcript:
        """The messages that it has read."""
        return self._engine.transcript

    def _project(
        self,
        request: Any,
        ids: Sequence[str] | None,
        now: float,
        room: tuple[int | None, int | None],
        caller: Caller,
    ) -> Projected:
        natives = list(self.format.messages(request))
        error = self._catch_up()
        self._tell_room(*room)
        self._read(natives, None if ids is None else list(ids))
        caller = caller_in(request) if caller is NOBODY else caller
        moment = self._clock.ask(now, caller)
        verdict: Verdict | None = None
        decisions: tuple[Decision, ...] = ()
        if error is None:
            verdict, decisions, error = self._decided(room, caller, moment, now)
        self._record.keep_standing(self._engine, self._engine.touched)
        self._record.commit()
        self._sent_under = (self._ledger, caller) if error is None else None
        engine, projection = self._engine, self._projection
        touched = engine.take_touched()
        self._accounting.sent(engine, touched)
        changed = projection.advance(engine, natives, touched)
        self.cache_breaks += changed
        engine.sent = len(natives)
        self._engagement.sent(engine)
        return Projected(
            self.format.replace(request, projection.messages(natives)) if engine.edits else request,
            projection.edits,
            decisions,
            verdict,
            engine.total_tokens,
            engine.removed_tokens,
            len(engine.masked),
            changed,
            error,
        )

    def _catch_up(self) -> str | None:
        """Take in what other processes have added to the ledger. Where that fails, what is known stands, and
        nothing new is decided: why.
        """
        try:
            self._read_ledger()
        except Exception as failure:  # noqa: BLE001 - what stands is known
            self._warn(f"the ledger cannot be read, so nothing new is pruned: {failure}")
            return _named(failure)
        return None

    def _read_ledger(self) -> None:
        if self._record.is_behind:
            self.follow()

    def _decided(
        self, room: tuple[int | None, int | None], caller: Caller, moment: Moment, now: float
    ) -> tuple[Verdict | None, tuple[Decision, ...], str | None]:
        """Decide and mask what this request calls for, committed as one; or why nothing was."""
        for attempt in range(_ATTEMPTS):
            engagement = copy.copy(self._engagement)
            try:
                verdict, decisions = self._step(room, caller, moment, now)
                self._record.keep_standing(self._engine, self._engine.touched)
                self._record.commit()
            except Exception as failure:  # noqa: BLE001 - what cannot be recorded is not done
                self._take_back(engagement)
                if isinstance(failure, ConflictError) and attempt < _ATTEMPTS - 1 and not self._catch_up():
                    continue
                self._warn(f"decisions could not be recorded, so nothing new is pruned: {failure}")
                return None, (), _named(failure)
            return verdict, decisions, None
        raise AssertionError

    def _step(
        self, room: tuple[int | None, int | None], caller: Caller, moment: Moment, now: float
    ) -> tuple[Verdict | None, tuple[Decision, ...]]:
        """What this request adds to the record, which is still to be committed."""
        verdict: Verdict | None = None
        decisions: tuple[Decision, ...] = ()
        if self._is_compacted():
            self._disengage(now)
        if self._is_again(caller):
            self._engine.pass_over()
            if self.policy.settings.enabled:
                self._note_sent(now)
        elif self.policy.settings.enabled:
            verdict = self._engine.verdict(moment)
            decisions = self._decide(self._engine.accepted(verdict), now)
        self._mask(*room, moment, now)
        return verdict, decisions

    def _take_back(self, engagement: Engagement) -> None:
        """Stand where things stood before a step that was not committed."""
        self._record.drop()
        self._engagement = engagement
        touched = self._engine.touched
        self._restart(len(self._messages))
        self._engine.touch(touched)

    def _is_again(self, caller: Caller) -> bool:
        """Whether the very same messages have gone out, and nothing is on record since: then they go out as
        they did, whatever the gate would say by now.
        """
        last = self._messages.last
        told = last is not None and self._ledger.request_id == last
        return told or self._sent_under == (self._ledger, caller)

    def _note_sent(self, now: float) -> None:
        """Have another process know that these messages have gone out, where no decision tells it."""
        if self._ledger.request_id != self._messages.last:
            self._add(self._record.masking(self._engine, (), now, engaged=self._ledger.engaged))

    def _warn(self, text: str) -> None:
        if not self._warned:
            self._warned = True
            with contextlib.suppress(PrunewiseWarning):  # turned into an error, it would stop the request
                warnings.warn(text, PrunewiseWarning, stacklevel=4)

    # ---- reading

    def _read(self, natives: Sequence[Native], ids: Sequence[str] | None) -> None:
        """Bring the engine to these messages: only what is new, where the rest is as it was."""
        kept, told_anew = self._messages.common(natives, ids)
        if not kept == len(self._messages) == len(natives):
            self._sent_under = None
        if kept < len(self._messages):
            self._read_other(kept, natives, ids)
        else:
            self._read_new(natives, ids)
        self._messages.tell_anew(natives, told_anew)
        self._projection.make_again(self._engine, told_anew)

    def _read_new(self, natives: Sequence[Native], ids: Sequence[str] | None) -> None:
        self._engine.extend(self._with_warmed(self._with_observed(self._messages.read(natives, ids))))
        self._accounting.read(self._engine, self._ledger)

    def _read_other(self, kept: int, natives: Sequence[Native], ids: Sequence[str] | None) -> None:
        """The same where only the first `kept` messages are as they were. A smaller conversation has been
        compacted, unless the host tells that itself.
        """
        size = self._engine.context.raw
        self._restart(kept)
        self._accounting.cut(kept)
        self._engagement.unseen = range(kept, len(natives))
        self._read_new(natives, ids)
        if self._engine.context.raw < size and not self._tells_compactions:
            self._clock.compacted()
            self._engagement.engaged = self._ledger.engaged

    def _with_observed(self, messages: list[Message]) -> list[Message]:
        """The messages, the usage that was observed on the first new answer, where none carries any: another
        process has to see the same.
        """
        usage, self._observed = self._observed, None
        self._carry_usage = self._carry_usage or any(message.usage is not None for message in messages)
        if self._carry_usage:
            return messages
        for position, message in enumerate(messages):
            if usage is not None and message.role == "assistant":
                messages[position] = msgspec.structs.replace(message, usage=usage)
                break
        return messages

    def _with_warmed(self, messages: list[Message]) -> list[Message]:
        """The messages, with each answer when the cache was last kept warm before it."""
        if not self._clock.warmed:
            return messages
        return [
            msgspec.structs.replace(message, warmed=self._clock.warmed_before(message.time))
            if message.role == "assistant" and message.time is not None
            else message
            for message in messages
        ]

    def under(self, policy: Policy) -> Pruner:
        """The same conversation under another policy, from here on. What stands and what has been sent
        stays. This one is of no more use.
        """
        other = Pruner(
            self.format,
            policy,
            self.store,
            cwd=self._cwd,
            tells_compactions=self._tells_compactions,
        )
        other.cache_breaks = self.cache_breaks
        other._clock, other._accounting = self._clock, self._accounting.under(policy.rules)
        other._observed, other._warned = self._observed, self._warned
        other._engine.sent = self._engine.sent  # before reading: what has gone out is not new
        other.read(self._messages.natives, ids=self._messages.ids if self._messages.named else None)
        other._projection = self._projection
        other._projection.start_over(other._engine, len(other._messages))
        if policy.settings.pruning.enabled:
            other._engagement = self._engagement
        if self._sent_under is not None:
            with contextlib.suppress(Exception):  # then another process may take what went out for new
                other._note_sent(time.time())
                other._record.commit()
        return other

    # ---- the engine

    def _fresh_engine(self) -> Engine:
        engine = engine_for(
            self.policy.rules,
            self.store.reference,
            cwd=self._cwd,
            vocabulary=self.format.vocabulary,
        )
        engine.follow(self._ledger)
        return engine

    def _restart(self, kept: int) -> None:
        """Start the engine again over the first `kept` messages, with what stands and what is masked."""
        self._messages.cut(kept)
        self._start_over(self._engine, kept)
        self._projection.start_over(self._engine, kept)
        self._engagement.cut(kept)
        self._sent_under = None

    def _start_over(self, before: Engine, kept: int) -> None:
        """A fresh engine over the first `kept` messages of another one."""
        engine = self._engine = self._fresh_engine()
        engine.sent = min(before.sent, kept)
        engine.extend(before.transcript.messages[:kept])

    # ---- masking

    @property
    def engaged(self) -> bool:
        """Whether masking has engaged; it stays so until the conversation gets smaller."""
        return self._engagement.engaged

    def engage(self) -> None:
        """Have masking engage, whatever the estimate says: the host knows that the context is full."""
        self._engagement.engaged = True

    def check_compaction(self, window: int, reserve: int) -> CompactionCheck:
        """Whether a compaction that the host is about to run on its threshold can be left out, in tokens.

        It speaks for the messages that were read last; where none were, nothing is left out.
        """
        check = self._engagement.check(self._engine, window, reserve)
        return check if len(self._messages) else msgspec.structs.replace(check, cancel=False)

    def compacted(self) -> None:
        """The host has compacted: masking starts again from raw. Noticed by itself where the size drops."""
        self._clock.compacted()
        self._engagement = Engagement(unseen=self._engagement.unseen)
        self._projection = Projection(self.format)
        self._restart(len(self._messages))
        try:
            self._disengage(time.time())
            self._commit()
        except Exception as failure:  # noqa: BLE001 - what was masked stays so
            self._warn(f"masking goes on, since its end could not be recorded: {failure}")

    def _is_compacted(self) -> bool:
        """Whether the conversation is smaller than when something was masked last."""
        return not self._tells_compactions and self._engine.context.raw < self._ledger.raw_tokens

    def _disengage(self, now: float) -> None:
        """Masking starts again from raw."""
        self._engagement.engaged = False
        if self._ledger.engaged:
            self._add(self._record.masking_ended(now))

    def _mask(self, window: int | None, reserve: int | None, moment: Moment, now: float) -> None:
        """Mask what may be masked, where masking is on and has engaged."""
        limits = self._limits(window, reserve)
        if limits is None or not self._engagement.engage(self._engine, *limits):
            return
        masked = self._engine.to_mask(moment)
        if masked or not self._ledger.engaged:
            self._add(self._record.masking(self._engine, masked, now, engaged=True))

    def _limits(self, window: int | None, reserve: int | None) -> tuple[int, int] | None:
        """The window and the reserve that masking goes by; None where it is off, or no window is known."""
        return self._room(window, reserve) if self.policy.settings.pruning.enabled else None

    def _room(self, window: int | None, reserve: int | None) -> tuple[int, int] | None:
        """The window and the reserve; None where no window is known."""
        settings = self.policy.settings
        window = settings.window if window is None else window
        if window is None:
            return None
        return window, settings.reserve if reserve is None else reserve

    def _tell_room(self, window: int | None, reserve: int | None) -> None:
        """Have the books know from which size on the host compacts."""
        room = self._room(window, reserve)
        if room is not None:
            self._accounting.compacts_from(room[0] - room[1])

    # ---- what is recorded

    @property
    def _ledger(self) -> Ledger:
        return self._record.ledger

    def _decide(self, proposals: Sequence[Proposal], now: float) -> tuple[Decision, ...]:
        """Have these proposals stand."""
        entries = self._record.decisions(self.transcript, proposals, now)
        self._add(entries)
        return tuple(entry for entry in entries if isinstance(entry, Decision))

    def _add(self, entries: Sequence[Entry]) -> None:
        """Have entries count; they are still to be committed."""
        if entries:
            self._record.add(entries)
            self._take_in()

    def _commit(self) -> None:
        """Write what was added; where that fails, it counts no longer."""
        try:
            self._record.commit()
        except BaseException:
            self._take_in()
            raise

    def follow(self) -> None:
        """Read the ledger again: another branch, or another process has added to it."""
        self._record.read()
        self._take_in()

    def _take_in(self) -> None:
        """Have the engine follow the record."""
        self._engagement.engaged = self._engagement.engaged or self._ledger.engaged
        if not self._engine.follow(self._ledger):
            self._restart(len(self._messages))

    # ---- the dry run

    def plan(
        self,
        request: Any,
        *,
        ids: Sequence[str] | None = None,
        window: int | None = None,
        reserve: int | None = None,
    ) -> Plan:
        """What `project` would do now, with nothing recorded; see `prunewise.plan`."""
        return copy.copy(self)._tried(request, ids, window, reserve)  # noqa: SLF001 - another one of these

    def _tried(
        self, request: Any, ids: Sequence[str] | None, window: int | None, reserve: int | None
    ) -> Plan:
        """The plan of a copy, made to be thrown away."""
        self._part()
        self.read(request, ids=ids)
        if self._is_compacted():
            self._disengage(time.time())
        limits = self._limits(window, reserve)
        mask = None if limits is None else partial(self._try_mask, *limits)
        return planned(self._engine, self._ledger, self.format.name, mask)

    def _try_mask(self, window: int, reserve: int) -> None:
        if self._engagement.engage(self._engine, window, reserve):
            self._engine.mask()

    def _part(self) -> None:
        """Share no state with the pruner that this is a copy of, and stand where it does."""
        self._messages = self._messages.copy()
        self.store = Tried(self.store)
        self._record = self._record.over(self.store, self._messages)
        self._projection = Projection(self.format)
        self._accounting = Accounting(self.policy.rules)
        self._engagement = copy.copy(self._engagement)
        self._start_over(self._engine, len(self._messages))

    # ---- a person's own decisions, and looking back

    def listing(self) -> list[Listed]:
        """Every part of the messages read that a person may prune or restore, oldest first."""
        return listing(self._engine, self._ledger, self.store.ledger())

    @property
    def proposals(self) -> list[Proposal]:
        """What strategies propose now, whatever the gate says of it: one a target, by position."""
        return self._engine.proposals

    def marker(self, target: Target) -> str:
        """The text that stands in for a target, or would if a person pruned it now.

        Raises:
            RefusedError: as `prune_call`.
        """
        decision = self._ledger.standing.get(target)
        exchange = self.transcript.exchange(target[0])
        if decision is None or exchange is None:
            return self._engine.manual(*target).marker
        position, part = exchange.position(target[1]), exchange.part(target[1])
        edit = self._engine.edits.get(position, {}).get(part)
        return (decision.placeholder or "") if edit is None else edit.text

    def tail_tokens(self, position: int) -> int:
        """The tokens from a message to the end as they go out now: what a change at it has cached again."""
        return self._engine.tail_tokens(position)

    def preview(self, targets: Sequence[Target]) -> Verdict:
        """What it would cost and save to prune these together: the gate's figures, whatever its mode.

        Raises:
            RefusedError: as `prune_call`.
        """
        return self._engine.price([self._engine.manual(*target) for target in targets])

    def decide(
        self, prune: Sequence[Target] = (), restore: Sequence[Target] = (), *, now: float | None = None
    ) -> tuple[Entry, ...]:
        """Prune and restore at a person's wish, all in one addition to the ledger: the entries added.

        Prunes are past floor, recency and gate.

        Raises:
            RefusedError: one to prune is not there, protected, pruned already, or would not get smaller;
                or nothing stands for one to restore. Nothing is added then.
        """
        now = time.time() if now is None else now
        self._read_ledger()
        for call_id, kind in restore:
            if (call_id, kind) not in self._ledger.standing:
                raise _nothing_stands(call_id)
        restores = self._record.restores(lambda decision: decision.target in restore, now)
        proposals = [self._engine.manual(*target) for target in prune]
        entries = (*restores, *self._record.decisions(self.transcript, proposals, now))
        self._write_by_hand(entries, now)
        return entries

    def prune_call(self, call_id: str, kind: ToolKind = TOOL_RESULT, *, now: float | None = None) -> Decision:
        """Prune one output (or a call's input) at a person's wish, past floor, recency and gate.

        Raises:
            RefusedError: it is not there, protected, pruned already, or would not get smaller.
        """
        return cast("Decision", self.decide([(call_id, kind)], now=now)[0])

    def restore(self, key: str, *, now: float | None = None) -> tuple[Restore, ...]:
        """Undo what stands for a key: a decision's idempotency key, or a call id for all of its targets.

        Raises:
            RefusedError: nothing stands for it.
        """
        now = time.time() if now is None else now
        self._read_ledger()
        restores = self._record.restores(
            lambda decision: key in (decision.idempotency_key, decision.target[0]), now
        )
        if not restores:
            raise _nothing_stands(key)
        self._write_by_hand(restores, now)
        return restores

    def _write_by_hand(self, entries: Sequence[Entry], now: float) -> None:
        """Write what a person decided, all in one addition, behind which the messages may go out again."""
        sent = self._sent_under is not None and self._ledger.request_id != self._messages.last
        note = self._record.masking(self._engine, (), now, engaged=self._ledger.engaged) if sent else []
        self._add([*entries, *note])
        self._commit()

    def recall(self, reference: str) -> str:
        """The full output that a marker's reference leads to; see `prunewise.recall.recall`."""
        return recall.recall(self.store, reference)

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
            self._accounting.balance,
            self._accounting.earlier,
        )


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


def _named(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _nothing_stands(key: str) -> RefusedError:
    return RefusedError(f"{key}: nothing is pruned under this key or call id")
