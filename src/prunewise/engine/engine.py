"""The engine itself: the steps from what strategies say to what goes out, over one growing transcript."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import msgspec

from prunewise import markers, strategies, tools
from prunewise.canonical import canonical
from prunewise.engine.edits import Edits, Place, place_of
from prunewise.engine.moment import NOW, Moment
from prunewise.engine.proposals import Pool, Proposal, in_order
from prunewise.errors import RefusedError
from prunewise.gates import Batch, Gate, Verdict, documented
from prunewise.gates.priced import Choose, choose
from prunewise.ledger import EMPTY, MANUAL, Decision, Ledger, Mask, Target
from prunewise.masking import Context, Output, Outputs, result_output, shell_output
from prunewise.prices import rules_for
from prunewise.protections import Protections
from prunewise.settings import Settings
from prunewise.tokens import DOCUMENTED, Estimator, text_tokens, utf16_length
from prunewise.transcript import (
    SHELL_OUTPUT,
    TOOL_INPUT,
    TOOL_RESULT,
    Edit,
    Exchange,
    Kind,
    Message,
    ReplacePart,
    Thinking,
    ToolKind,
    Transcript,
)

Reference = Callable[[str, str], str | None]
"""Issues the recall reference of (message id, call id), or None where none can be promised."""

_PRIORITY = {entry.name: rank for rank, entry in enumerate(strategies.STRATEGIES)}


_Measured = tuple[str, int, int, int]
"""A marker; what it replaces, in tokens and in characters; the characters that are left with it. None
where a marker stands there already."""


class Rules(msgspec.Struct, frozen=True):
    """What an engine goes by, apart from the conversation."""

    settings: Settings
    gate: Gate = documented
    estimator: Estimator = DOCUMENTED
    prices: object | None = None
    choose: Choose = choose
    """Where the priced policy cuts."""


class Engine:
    """One transcript under one set of rules."""

    def __init__(
        self,
        rules: Rules,
        reference: Reference,
        *,
        cwd: str | None = None,
        vocabulary: tools.Vocabulary = tools.PI,
    ) -> None:
        self.rules = rules
        self.transcript = Transcript(cwd=cwd, vocabulary=vocabulary)
        self.recalls: list[Exchange] = []
        """The exchanges in which something was recalled."""
        self.sent = 0
        """How many messages have gone out, whether or not an answer came: its owner says so."""
        self.masked: dict[tuple[str, Kind], Place] = {}
        """The targets that masking has replaced, and where."""
        self._context = Context()
        self._reference = reference
        self._protections = Protections(rules.settings.protections)
        self._strategies = strategies.enabled(rules.settings)
        self._outputs = Outputs(rules.settings.pruning)
        self._maskable: list[Output] = []
        self._to_mask: dict[tuple[str, Kind], Output] = {}
        self._in_open_turn: list[Mask] = []
        self._passed_by: set[tuple[str, Kind]] = set()
        self._ledger = EMPTY
        self._applied = 0
        self._edits = Edits()
        self._pool = Pool()
        self._covered = 0
        """So many first messages were covered by a signature when the last verdict was given."""
        self._signing: dict[tuple[str, str], bool] = {}

    # ---- growing

    def extend(self, messages: Iterable[Message]) -> None:
        """Append messages, and take in what the strategies say of them."""
        start = len(self.transcript)
        self.transcript.extend(messages)
        measure = self.rules.estimator.message
        self._edits.extend([measure(message) for message in self.transcript.messages[start:]])
        self._take_in(self.transcript.exchanges[self._applied :])
        self._applied = len(self.transcript.exchanges)
        if self._ledger.masks:
            self._take_in_shells(start)
            self._put_masks(())
        if self.rules.settings.enabled:
            self._look()

    def _look(self) -> None:
        """Take in what the strategies say of what is new."""
        self._pool.advance(self.transcript.turn)
        for strategy in self._strategies:
            self._propose(strategy.name, strategy.advance(self.transcript))

    # ---- proposing

    def _propose(self, strategy: str, stales: Iterable[strategies.Stale]) -> None:
        """Take in what a strategy found: what may go now, and what may go once it is no longer recent."""
        standing, restored, masked = self._ledger.standing, self._ledger.restored, self.masked
        pool, protect = self._pool, self._protections.reason
        floor = self.rules.settings.thresholds.min_chars_saved
        recent = self.rules.settings.protections.recent_turns
        for stale in stales:
            exchange, kind = stale.exchange, stale.kind
            target = (exchange.call.id, kind)
            if target in standing or target in restored or target in masked or exchange.reused_id:
                continue
            known = pool.get(target)
            if known is not None:
                if _PRIORITY[known.strategy] <= _PRIORITY[strategy]:
                    continue
            elif protect(exchange) is not None:
                continue
            proposal = self._measure(strategy, exchange, kind, stale.reason, floor)
            if proposal is None:
                continue  # and what another strategy said of it still holds
            if known is not None:
                pool.drop(target)
            turn = exchange.call_turn if kind == TOOL_INPUT else exchange.result_turn
            pool.put(target, proposal, turn + recent)

    def _measure(
        self, strategy: str, exchange: Exchange, kind: ToolKind, reason: str, floor: int = 1
    ) -> Proposal | None:
        """The proposal with its marker and sizes; None where it would take out fewer than `floor` characters
        (a result that holds images always passes) or no token.
        """
        reference = self.reference_of(exchange)
        if reference is None:
            return None
        measure = self._measured_input if kind == TOOL_INPUT else self._measured_result
        measured = measure(exchange, reason, reference)
        if measured is None:
            return None
        marker, original, characters, left = measured
        removed = original - (left + 3) // 4
        if removed <= 0:
            return None
        if characters - left < floor and not (kind == TOOL_RESULT and exchange.result.has_image):
            return None
        return Proposal(
            strategy,
            kind,
            exchange.call.id,
            exchange.position(kind),
            original,
            removed,
            reason,
            "paid",
            exchange.order,
            marker,
            reference,
        )

    def _measured_input(self, exchange: Exchange, reason: str, reference: str) -> _Measured | None:
        call = exchange.call
        if self._is_marker(exchange, TOOL_INPUT):
            return None
        characters = utf16_length(call.text)
        marker = markers.purged_input(call.name, characters, reason, reference)
        return (
            marker,
            text_tokens(call.text),
            characters,
            utf16_length(canonical({markers.INPUT_KEY: marker})),
        )

    def _measured_result(self, exchange: Exchange, reason: str, reference: str) -> _Measured | None:
        result = exchange.result
        if self._is_marker(exchange, TOOL_RESULT):
            return None
        characters = utf16_length(result.text)
        marker = markers.output(
            exchange.call.name, characters, reason, reference, images=result.images, files=result.files
        )
        return marker, self.rules.estimator.content(result), characters, utf16_length(marker)

    def _is_marker(self, exchange: Exchange, kind: ToolKind) -> bool:
        """Whether the host has sent back a marker of ours as this part."""
        if kind == TOOL_INPUT:
            arguments = exchange.call.arguments
            text = arguments.get(markers.INPUT_KEY) if len(arguments) == 1 else None
        else:
            text = exchange.result.text
        return ((exchange.call.id, kind), text) in self._ledger.markers

    def reference_of(self, exchange: Exchange) -> str | None:
        """The recall reference of an exchange."""
        return self._reference(self.transcript.messages[exchange.result_position].id, exchange.call.id)

    # ---- what could go now

    @property
    def has_proposals(self) -> bool:
        """Whether anything may go now."""
        return len(self._pool) > 0

    def take_new(self) -> list[Proposal]:
        """The proposals that have become possible since this was last asked, by position and call order."""
        return self._pool.take_new()

    @property
    def proposals(self) -> list[Proposal]:
        """What may go now: protected, floored, one a target, by position and then call order."""
        sent = self.transcript.sent
        ripe = self._pool.ripe()
        return [msgspec.structs.replace(one, lane="free") if one.position >= sent else one for one in ripe]

    def verdict(self, moment: Moment = NOW) -> Verdict:
        """The gate's verdict on everything that may go now, as one batch."""
        self._covered = self.covered(moment)
        batch = self._batch(
            lambda: self.proposals, self._pool.earliest, self._pool.tokens, moment.seconds_since_call
        )
        if self._covered or self._proposes_unseen():
            batch = self._batch_of(self._allowed(), moment.seconds_since_call)
        return self.rules.gate(batch, self.rules.settings.gate)

    def pass_over(self) -> None:
        """The messages go out without a verdict."""

    def accepted(self, verdict: Verdict) -> list[Proposal]:
        """What goes by this verdict, which is the last one given."""
        return self._allowed() if verdict.accepted else []

    def _allowed(self) -> list[Proposal]:
        """The proposals that no signature covers and whose outputs the model has had in full."""
        seen = self.transcript.seen
        return [
            one
            for one in self.proposals
            if one.position >= self._covered and (one.kind != TOOL_RESULT or one.position < seen)
        ]

    def _proposes_unseen(self) -> bool:
        """Whether a result may go that the model has not yet had."""
        seen = self.transcript.seen
        for exchange in reversed(self.transcript.exchanges):
            if exchange.result_position < seen:
                return False
            if self._pool.get((exchange.call.id, TOOL_RESULT)) is not None:
                return True
        return False

    def covered(self, moment: Moment = NOW) -> int:
        """How many first messages a signature covers, as they were sent: with models whose signed thinking
        binds all before it, the provider refuses a request in which one of them has changed since. 0 with
        others, and where the host leaves such thinking out.
        """
        if moment.drops_thinking or not self._signs(moment):
            return 0
        messages = self.transcript.messages
        return next(
            (
                position + 1
                for position in range(len(messages) - 1, -1, -1)
                if any(type(part) is Thinking and part.signature for part in messages[position].parts)
            ),
            0,
        )

    def _signs(self, moment: Moment) -> bool:
        """Whether the signatures of the model at hand cover what is before them."""
        key = (moment.model or self.transcript.model, moment.provider)
        known = self._signing.get(key)
        if known is None:
            rules = rules_for(*key)
            known = self._signing[key] = rules is not None and rules.signed
        return known

    def price(self, proposals: Iterable[Proposal]) -> Verdict:
        """The gate's figures for these proposals together, whatever its mode."""
        gate = msgspec.structs.replace(self.rules.settings.gate, mode="always-apply")
        return self.rules.gate(self._batch_of(in_order(proposals), None), gate)

    def _batch_of(self, proposals: list[Proposal], seconds_since_call: float | None) -> Batch:
        earliest = proposals[0].position if proposals else None
        removed = sum(one.tokens_removed for one in proposals)
        return self._batch(lambda: proposals, earliest, removed, seconds_since_call)

    def _batch(
        self,
        proposals: Callable[[], list[Proposal]],
        earliest: int | None,
        tokens_removed: int,
        seconds_since_call: float | None,
    ) -> Batch:
        transcript = self.transcript
        return Batch(
            proposals,
            earliest,
            tokens_removed,
            self.tail_tokens,
            transcript.state,
            transcript.sent,
            seconds_since_call,
            transcript.llm_calls,
            self.rules.prices,
        )

    def manual(self, call_id: str, kind: ToolKind = TOOL_RESULT) -> Proposal:
        """What a person's prune of this target would do. Floor, recency and gate are bypassed.

        Raises:
            RefusedError: it is not there, protected, covered by a signature, pruned already, or would not
                get smaller.
        """
        exchange = self.transcript.exchange(call_id)
        if exchange is None:
            raise RefusedError(f"{call_id}: no completed call with this id on this branch")
        reason = self._protections.reason(exchange)
        if reason is not None:
            raise RefusedError(f"{call_id}: {reason}")
        if (call_id, kind) in self._ledger.standing:
            raise RefusedError(f"{call_id}: pruned already")
        if exchange.position(kind) < self.covered():
            raise RefusedError(
                f"{call_id}: signed thinking covers it, and the provider would refuse the request"
            )
        proposal = self._measure(MANUAL, exchange, kind, markers.BY_USER)
        if proposal is None:
            raise RefusedError(f"{call_id}: a marker would not be smaller than what it replaces")
        return proposal

    def preview(self, proposal: Proposal) -> None:
        """Edit as if the proposal stood, for a dry run."""
        exchange = self.transcript.exchange(proposal.call)
        if exchange is not None:
            self._edit(
                place_of(exchange, proposal.kind), proposal.kind, proposal.marker, proposal.tokens_removed
            )

    # ---- what goes out

    @property
    def edits(self) -> Mapping[int, Mapping[int, Edit]]:
        """What goes out changed: by the position of the message, by its part."""
        return self._edits.by_position

    @property
    def touched(self) -> list[int]:
        """The positions whose edits changed since `take_touched`, in order."""
        return sorted(self._edits.touched)

    def take_touched(self) -> list[int]:
        """The positions whose edits changed since this was last asked, in order."""
        touched = self.touched
        self._edits.touched.clear()
        return touched

    def touch(self, positions: Iterable[int]) -> None:
        """Count these among the positions whose edits changed."""
        self._edits.touched.update(positions)

    @property
    def edit_count(self) -> int:
        """How many parts go out changed."""
        return len(self._edits)

    @property
    def removed_tokens(self) -> int:
        """What the edits take out of this request, in tokens."""
        return self._edits.removed_tokens

    @property
    def context(self) -> Context:
        """The context of the messages so far, as the host estimates it."""
        self._context.advance(self.transcript)
        return self._context

    @property
    def total_tokens(self) -> int:
        """The transcript without any pruning, in the rules' estimate."""
        return self._edits.raw_tokens

    @property
    def message_tokens(self) -> list[int]:
        """The size of each message as it goes out now."""
        return list(self._edits.sizes)

    def raw_sizes(self, start: int) -> list[int]:
        """The size of each message from a position on, without any pruning."""
        return self._edits.raw_sizes(start)

    def saving_at(self, place: Place) -> int:
        """What the edit at a place takes out, in tokens; 0 where there is none."""
        return self._edits.saving_at(place)

    def tail_tokens(self, position: int) -> int:
        """The tokens from a position to the end, as they go out now."""
        return self._edits.tail_tokens(position)

    # ---- what stands

    def follow(self, ledger: Ledger) -> bool:
        """Take in a newly folded ledger: apply what stands, undo what does not.

        False where a decision or a mask has gone without a restore (another branch, or masking begins
        again), or what was restored is pruned again without effect: then what that had kept from being
        proposed or masked is not known any more, and its owner starts a fresh engine.
        """
        before, self._ledger = self._ledger, ledger
        if before is ledger:
            return True
        if not ledger.masks.keys() >= before.masks.keys():
            return False
        known = ledger.standing.keys() | ledger.restored
        if not known >= (before.standing.keys() | before.restored):
            return False
        for target, decision in before.standing.items():
            if self.rules.settings.enabled and ledger.standing.get(target) != decision:
                self._fall(target)
        for target in ledger.restored:
            self._pool.drop(target)
            self._unmask(target)
        for target, decision in ledger.standing.items():
            exchange = self.transcript.exchange(target[0])
            if (
                self.rules.settings.enabled
                and exchange is not None
                and before.standing.get(target) != decision
            ):
                self._stand(exchange, decision)
        self._put_masks(mask for target, mask in ledger.masks.items() if before.masks.get(target) != mask)
        return not any(self._is_bare(target) for target in before.restored - ledger.restored)

    def _is_bare(self, target: Target) -> bool:
        """Whether nothing stands in for a target: pruned again without effect, masking may take it up."""
        exchange = self.transcript.exchange(target[0]) if target in self._passed_by else None
        return exchange is not None and place_of(exchange, target[1]) not in self._edits

    def _fall(self, target: Target) -> None:
        """Let a decision stand no longer."""
        exchange = self.transcript.exchange(target[0])
        if exchange is not None and target not in self.masked:
            self._edits.undo(place_of(exchange, target[1]))

    def _take_in(self, exchanges: Iterable[Exchange]) -> None:
        """Let what stands already stand for new exchanges, and note which of them are recalls."""
        standing, recall = self._ledger.standing, self.transcript.vocabulary.recall
        for exchange in exchanges:
            if exchange.call.name.lower() in recall:
                self.recalls.append(exchange)
            if standing and self.rules.settings.enabled and not exchange.reused_id:
                for kind in (TOOL_RESULT, TOOL_INPUT):
                    decision = standing.get((exchange.call.id, kind))
                    if decision is not None:
                        self._stand(exchange, decision)
            mask = self._ledger.masks.get((exchange.call.id, TOOL_RESULT))
            if mask is not None and not exchange.reused_id:
                self._put_mask(mask)

    def _take_in_shells(self, start: int) -> None:
        """Let masks stand for new outputs of shell commands."""
        for position in range(start, len(self.transcript)):
            message = self.transcript.messages[position]
            mask = self._ledger.masks.get((message.id, SHELL_OUTPUT))
            output = None if mask is None else shell_output(message, position)
            if mask is not None and output is not None:
                self._to_mask[mask.target] = output
                self._put_mask(mask)

    def _stand(self, exchange: Exchange, decision: Decision) -> None:
        kind = decision.kind
        self._pool.drop(decision.target)
        message = self.transcript.messages[exchange.result_position].id
        if decision.entry_id is not None and decision.entry_id != message:
            return  # the call id is the same, the output is another
        marker = decision.placeholder
        foreign = marker is None
        if marker is None:
            if kind == TOOL_INPUT and not exchange.result.is_error:
                return  # nor does the TypeScript extension
            marker = (
                markers.foreign_input(decision.reason)
                if kind == TOOL_INPUT
                else markers.foreign_output(decision.reason, exchange.result)
            )
        saving = self._saving(exchange, kind, marker)
        if saving <= 0 and not foreign:
            return
        self._unmask(decision.target)
        self._edit(place_of(exchange, kind), kind, marker, saving)

    def _saving(self, exchange: Exchange, kind: ToolKind, marker: str) -> int:
        if kind == TOOL_INPUT:
            return text_tokens(exchange.call.text) - text_tokens(canonical(markers.input_object(marker)))
        return self.rules.estimator.content(exchange.result) - text_tokens(marker)

    def _edit(self, place: Place, kind: Kind, marker: str, saving: int, *, keep_images: bool = False) -> None:
        position, part = place
        message = self.transcript.messages[position].id
        self._edits.put(ReplacePart(message, position, part, kind, marker, keep_images), saving)

    def _unmask(self, target: Target) -> None:
        place = self.masked.pop(target, None)
        if place is not None:
            self._passed_by.add(target)
            self._edits.undo(place)

    # ---- masking

    def mask(self, moment: Moment = NOW) -> list[tuple[Output, str]]:
        """Replace every output that masking may replace and nothing else has, each with its reference,
        past any record: for those who only try.
        """
        masked = self.to_mask(moment)
        for output, mask in masked:
            self._apply(output, mask)
        return [(output, mask.reference) for output, mask in masked]

    def to_mask(self, moment: Moment = NOW) -> list[tuple[Output, Mask]]:
        """Every output that masking may replace and nothing else has. They are replaced once the ledger that
        is followed has their masks; until then they are given again.
        """
        covered, seen = self.covered(moment), self.transcript.seen
        self._maskable.extend(self._outputs.advance(self.transcript))
        waiting, self._maskable = self._maskable, []
        masked: list[tuple[Output, Mask]] = []
        for output in waiting:
            target = (output.call_id, output.kind)
            if (output.position, output.part) in self._edits:
                continue
            if target in self._ledger.restored:
                self._passed_by.add(target)
                continue
            if not covered <= output.position < seen or self._holds(target):
                self._maskable.append(output)
                continue
            mask = self._masking_of(output)
            if mask is None:
                continue
            self._maskable.append(output)
            self._to_mask[target] = output
            masked.append((output, mask))
        return masked

    def _put_masks(self, masks: Iterable[Mask]) -> None:
        """Let masks stand; those of the current turn, where it is protected, once it is over."""
        waiting, self._in_open_turn = [*self._in_open_turn, *masks], []
        for mask in waiting:
            self._put_mask(mask)

    def _put_mask(self, mask: Mask) -> None:
        """Let a mask of the ledger stand, where its output is here and nothing else stands for it."""
        target = mask.target
        if not self.rules.settings.pruning.enabled or target in self._ledger.restored:
            return
        output = self._to_mask.get(target) or self._result(target[0])
        if output is None or (output.position, output.part) in self._edits:
            return
        is_open = self.transcript.turns[output.position] == self.transcript.turn
        if is_open and self.rules.settings.pruning.protect_current_turn:
            self._in_open_turn.append(mask)
            return
        if mask.entry_id in (None, output.message):
            self._apply(output, mask)

    def _result(self, call_id: str) -> Output | None:
        """The result of a call; None where it is not here."""
        exchange = self.transcript.exchange(call_id)
        if exchange is None:
            return None
        return result_output(exchange, self.transcript.messages[exchange.result_position].id)

    def _apply(self, output: Output, mask: Mask) -> None:
        self._pool.drop((output.call_id, TOOL_RESULT))
        self._to_mask.pop(mask.target, None)
        place = self.masked[mask.target] = (output.position, output.part)
        saving = output.tokens - text_tokens(mask.placeholder)
        self._edit(place, output.kind, mask.placeholder, saving, keep_images=True)

    @property
    def unmasked_saving(self) -> int:
        """What masking could take out of this request beyond the edits there are, in tokens."""
        covered, seen = self.covered(), self.transcript.seen
        self._maskable.extend(self._outputs.advance(self.transcript))
        return sum(
            output.tokens - text_tokens(mask.placeholder)
            for output in self._maskable
            if covered <= output.position < seen
            and not self._holds((output.call_id, output.kind))
            and (output.position, output.part) not in self._edits
            and (output.call_id, output.kind) not in self._ledger.restored
            and (mask := self._masking_of(output)) is not None
        )

    def _holds(self, target: tuple[str, Kind]) -> bool:  # noqa: ARG002
        """Whether something leads to an output, which stays for that."""
        return False

    def _masking_of(self, output: Output) -> Mask | None:
        """A maskable output's mask; None where it would take no token out."""
        name = "" if output.exchange is None else output.call_id
        if ((name, output.kind), output.text) in self._ledger.markers:
            return None
        reference = self._reference(output.message, output.call_id)
        if reference is None:
            return None
        marker = output.marker(self.transcript.vocabulary, reference)
        if output.tokens <= text_tokens(marker):
            return None
        return Mask(output.call_id, output.kind, marker, reference, output.message)
