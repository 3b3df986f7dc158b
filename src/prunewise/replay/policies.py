"""Policies to compare: each takes a recorded conversation call by call and says what it would cut.

Ours run on the engine as it stands. The others are written from their public documentation, so that
they can be compared on the same sessions: they decide what goes, the bill and the loss are one for all.

`clear-tool-uses` follows the table of options in Anthropic's "Context editing"
(platform.claude.com/docs/en/build-with-claude/context-editing, read 2026-11-30) at its defaults: past
100,000 input tokens of the whole prompt; the newest 3 pairs of call and result stay; no tool is excluded,
no least amount asked for, inputs stay. The client sends the whole history each time, so past the trigger
each call clears all but the newest 3. The text that stands in is not documented: ours is as long as one.

`langchain` follows ClearToolUsesEdit in ContextEditingMiddleware (langchain 1, commit 925aa15f, agents/
middleware/context_editing.py, read 2026-11-30) at its defaults: past 100,000 tokens of the messages alone,
system prompt and tools aside, counted at four characters each and three for each message
(count_tokens_approximately); the newest 3 results stay; `[cleared]` stands in. It edits a copy, so each
call counts the conversation in full. With a `clear_at_least` it would stop clearing once that is reached,
where Anthropic's would not begin unless it can be; both default to none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from prunewise import ledger
from prunewise.cache import UNTOLD
from prunewise.canonical import canonical
from prunewise.engine import NOW, Engine, Moment, Proposal, Rules
from prunewise.errors import InputError
from prunewise.gates.priced import Choose, choose, ski
from prunewise.ledger import Decision, Target
from prunewise.masking import engages
from prunewise.priced.engine import PricedEngine
from prunewise.settings import DEFAULTS, Settings
from prunewise.tokens import DOCUMENTED, PI, text_tokens
from prunewise.tools import Vocabulary
from prunewise.transcript import (
    TOOL_RESULT,
    Exchange,
    Kind,
    Message,
    Text,
    ToolCall,
    ToolResult,
    Transcript,
)


class Cut(msgspec.Struct, frozen=True, gc=False):
    """One part that goes out shorter from one LLM call of an epoch on. Sizes in estimated tokens."""

    call: int
    """The first LLM call of the epoch whose request is without it, counted from 0."""
    position: int
    """The epoch's message that it is in."""
    part: int
    kind: Kind
    before: int
    after: int
    strategy: str
    marker: str
    """What stands there instead, and can still be read."""
    again: int | None = None
    """Where the cut takes out again what a recall had brought back: the message before which that stood."""

    @property
    def removed(self) -> int:
        """What it takes out of each request, in tokens; below zero where the marker is the longer one. What
        a recall had brought back is charged with the recall, so that here only the marker counts.
        """
        return -self.after if self.again is not None else self.before - self.after


class Conversation(msgspec.Struct, frozen=True):
    """What a policy may know of the conversation beforehand."""

    vocabulary: Vocabulary
    cwd: str | None = None
    window: int = 200_000
    """The model's context window, in tokens."""
    reserve: int = 16_384
    prefix: float = 0.0
    """System prompt and tools, in the provider's tokens."""
    scale: float = 1.0
    """The provider's tokens for one that pi would estimate."""
    prices: object | None = None
    """What providers charge, as the session is billed."""


class Meeting(msgspec.Struct, frozen=True):
    """What a policy may know of an LLM call that is about to be made."""

    seconds_since_call: float | None = None
    model: str = ""
    provider: str = ""
    cold: bool = False
    """Whether nothing can be cached: the model is another one, or the epoch has just begun."""


class Run(Protocol):
    """A policy at work on one conversation."""

    def begin(self) -> None:
        """A new epoch: the messages start again; what was decided before goes on standing."""
        ...

    def step(self, new: Sequence[Message], call: int, meeting: Meeting = ...) -> list[Cut]:
        """What goes at this LLM call, whose request has these messages beyond those of the call before."""
        ...

    def recalled(self, cut: Cut) -> None:
        """The answer to the last call needed what this cut took out: as a live session would show it."""
        ...


UNKNOWN = Meeting()


class Policy(msgspec.Struct, frozen=True):
    """A policy by name."""

    name: str
    what: str
    """What it does, in one line."""
    start: Callable[[Conversation], Run]
    eager: Callable[[Conversation], Run]
    """The same rules without gate or trigger: each cut at the first LLM call at which it may be made.
    Its cuts are the policy's supply, from which the hindsight optimum chooses."""
    learns: bool = False
    """Whether a recall changes what it cuts later."""


class _Nothing:
    """No pruning."""

    def begin(self) -> None:
        """Nothing is remembered."""

    def step(self, new: Sequence[Message], call: int, meeting: Meeting = UNKNOWN) -> list[Cut]:  # noqa: ARG002
        """Nothing goes."""
        return []

    def recalled(self, cut: Cut) -> None:
        """Nothing is learnt."""


class _EngineRun:
    """The engine under one settings value, with a ledger in memory."""

    def __init__(self, settings: Settings, conversation: Conversation, choose: Choose = choose) -> None:
        self._rules = Rules(settings, prices=conversation.prices, choose=choose)
        self._conversation = conversation
        self._ledger = ledger.EMPTY
        self._engaged = False
        self.begin()

    def begin(self) -> None:
        """A fresh engine under the decisions that stand; masking starts again from raw."""
        self._engaged = False
        self._engine = self._started()
        self._engine.follow(self._ledger)

    def _started(self) -> Engine:
        conversation = self._conversation
        return Engine(self._rules, _reference, cwd=conversation.cwd, vocabulary=conversation.vocabulary)

    def step(self, new: Sequence[Message], call: int, meeting: Meeting = UNKNOWN) -> list[Cut]:
        """What the gate lets through, and what masking replaces."""
        engine = self._engine
        engine.extend(new)
        cuts = [self._standing(position, part, call) for position, part in self._take_touched()]
        if self._rules.settings.enabled:
            proposals = self._proposals(meeting)
            if proposals:
                self._record(proposals)
                cuts += [self._cut(proposal, call) for proposal in proposals]
        if self._rules.settings.pruning.enabled:
            cuts += self._mask(call)
        engine.take_touched()  # all of these cuts are noted
        return cuts

    def recalled(self, cut: Cut) -> None:
        """The documented rules look at no recall."""

    def _proposals(self, meeting: Meeting) -> list[Proposal]:  # noqa: ARG002
        return self._engine.accepted(self._engine.verdict()) if self._engine.has_proposals else []

    def _take_touched(self) -> list[tuple[int, int]]:
        """Where decisions of an earlier epoch stand in messages that were kept."""
        engine = self._engine
        return [(at, part) for at in engine.take_touched() for part in sorted(engine.edits.get(at, ()))]

    def _standing(self, position: int, part: int, call: int) -> Cut:
        edit = self._engine.edits[position][part]
        before = part_tokens(self._engine.transcript.messages[position], part)
        after = before - self._engine.saving_at((position, part))
        return Cut(call, position, part, edit.kind, before, after, "standing", edit.text)

    def _cut(self, proposal: Proposal, call: int) -> Cut:
        exchange = self._engine.transcript.exchange(proposal.call)
        assert exchange is not None
        return Cut(
            call,
            proposal.position,
            exchange.part(proposal.kind),
            proposal.kind,
            proposal.original_tokens,
            proposal.original_tokens - proposal.tokens_removed,
            proposal.strategy,
            proposal.marker,
        )

    def _record(self, proposals: Sequence[Proposal]) -> None:
        standing: dict[Target, Decision] = dict(self._ledger.standing)
        for one in proposals:
            standing[one.target] = ledger.decide(
                one.strategy,
                one.call,
                one.kind,
                reason=one.reason,
                placeholder=one.marker,
                created_at="",
                reference=one.reference,
            )
        self._ledger = ledger.Ledger(standing, frozenset(), tuple(standing.values()))
        self._engine.follow(self._ledger)

    def _mask(self, call: int) -> list[Cut]:
        engine = self._engine
        engine.context.advance(engine.transcript)
        if not self._engaged:
            # Recorded usage is that of requests without pruning, so it prices the raw context.
            tokens = max(engine.context.estimate, engine.context.raw)
            self._engaged = engages(tokens, self._conversation.window, self._conversation.reserve)
        if not self._engaged:
            return []
        cuts: list[Cut] = []
        for output, _ in engine.mask():
            place = (output.position, output.part)
            text = engine.edits[output.position][output.part].text
            after = output.tokens - engine.saving_at(place)
            cuts.append(Cut(call, *place, output.kind, output.tokens, after, "masking", text))
        return cuts


class _PricedRun(_EngineRun):
    """The engine under the priced policy. A recall stands in its transcript as it would in a live session:
    one more call and its result, before the answer that needed it. So positions in the engine run ahead
    of the epoch's.
    """

    def __init__(self, settings: Settings, conversation: Conversation, choose: Choose = choose) -> None:
        self._warmth = UNTOLD
        self._moment = NOW
        self._references: dict[str, str] = {}
        super().__init__(settings, conversation, choose)

    def begin(self) -> None:
        """What the cache was found to do is still known; what was recalled before is gone."""
        self._places: list[int] = []
        """The epoch's position of each message in the engine; of a recall's, that of the message after it."""
        self._held: list[int] = []
        """The engine's position of each message of the epoch."""
        self._recalls: list[Cut] = []
        """Those that the next step puts into the transcript."""
        self._returned: dict[str, Cut] = {}
        """By the call of a recall, what it brought back."""
        super().begin()

    def _started(self) -> PricedEngine:
        conversation = self._conversation
        self._priced = PricedEngine(
            self._rules,
            lambda _, call_id: self._reference(call_id),
            cwd=conversation.cwd,
            vocabulary=conversation.vocabulary,
        )
        self._priced.warmth = self._warmth
        return self._priced

    def _reference(self, call_id: str) -> str:
        """A reference of the usual length that leads to one call."""
        return self._references.setdefault(call_id, f"#{1000 + len(self._references)}")

    def step(self, new: Sequence[Message], call: int, meeting: Meeting = UNKNOWN) -> list[Cut]:
        """As without recalls, behind those that the last answer needed."""
        recalls = [message for cut in self._recalls for message in self._recall(cut)]
        self._recalls = []
        read = len(self._held)
        self._places += [read] * len(recalls)
        self._held += range(len(self._places), len(self._places) + len(new))
        self._places += range(read, read + len(new))
        self._moment = Moment(meeting.seconds_since_call, meeting.model, meeting.provider, meeting.cold)
        return [self._in_epoch(cut) for cut in super().step([*recalls, *new], call, meeting)]

    def recalled(self, cut: Cut) -> None:
        """It comes back before the answer that needed it."""
        self._recalls.append(cut)

    def _recall(self, cut: Cut) -> tuple[Message, Message]:
        """The call of a recall and its result."""
        message = self._engine.transcript.messages[self._held[cut.position]]
        part = message.parts[cut.part]
        assert isinstance(part, ToolResult | ToolCall)
        origin = part.call_id if isinstance(part, ToolResult) else part.id
        text = part.text
        call_id = f"recall-{len(self._returned)}-of-{origin}"
        self._returned[call_id] = cut
        arguments = {"ref": self._reference(origin)}
        asked = ToolCall(call_id, "recall", arguments, canonical(arguments))
        return (
            Message("assistant", call_id, (asked,)),
            Message("tool", f"{call_id}-result", (ToolResult(call_id, "recall", (Text(text),)),)),
        )

    def _proposals(self, meeting: Meeting) -> list[Proposal]:  # noqa: ARG002
        accepted = self._priced.accepted(self._priced.verdict(self._moment))
        self._warmth = self._priced.warmth
        return accepted

    def _cut(self, proposal: Proposal, call: int) -> Cut:
        cut = super()._cut(proposal, call)
        origin = self._returned.get(proposal.call)
        if origin is None:
            return cut
        return msgspec.structs.replace(
            cut,
            position=origin.position,
            part=origin.part,
            kind=origin.kind,
            before=origin.before,
            again=cut.position,
        )

    def _in_epoch(self, cut: Cut) -> Cut:
        """The cut by the epoch's positions."""
        if cut.again is not None:
            return msgspec.structs.replace(cut, again=self._places[cut.again])
        return msgspec.structs.replace(cut, position=self._places[cut.position])


class _Rule(msgspec.Struct, frozen=True):
    """Clear the results of the oldest calls, all but the newest so many, once the context is past a size."""

    name: str
    trigger: float
    """In tokens, as `messages` and `fixed` count them."""
    keep: int
    placeholder: str
    messages: Callable[[Conversation, Sequence[Message]], float]
    fixed: Callable[[Conversation], float]


class _KeepNewest:
    """A rule at work. It counts the conversation as its host keeps it: what is cleared counts in full."""

    def __init__(self, rule: _Rule, conversation: Conversation) -> None:
        self._rule, self._conversation = rule, conversation
        self.begin()

    def begin(self) -> None:
        """What was cleared is cleared again by the same rule."""
        self._transcript = Transcript(cwd=self._conversation.cwd, vocabulary=self._conversation.vocabulary)
        self._tokens = self._rule.fixed(self._conversation)
        self._cleared = 0

    def step(self, new: Sequence[Message], call: int, meeting: Meeting = UNKNOWN) -> list[Cut]:  # noqa: ARG002
        """What the rule clears now and had not before, however small: the cache breaks all the same."""
        self._transcript.extend(new)
        self._tokens += self._rule.messages(self._conversation, new)
        exchanges = self._transcript.exchanges
        if self._tokens <= self._rule.trigger:
            return []
        end = max(self._cleared, len(exchanges) - self._rule.keep)
        cuts = [self._cut(exchange, call) for exchange in exchanges[self._cleared : end]]
        self._cleared = end
        return cuts

    def recalled(self, cut: Cut) -> None:
        """The rule does not learn."""

    def _cut(self, exchange: Exchange, call: int) -> Cut:
        before, after = DOCUMENTED.content(exchange.result), text_tokens(self._rule.placeholder)
        place = (exchange.result_position, exchange.result_part)
        return Cut(call, *place, TOOL_RESULT, before, after, self._rule.name, self._rule.placeholder)


def _as_billed(conversation: Conversation, messages: Sequence[Message]) -> float:
    """The provider's tokens."""
    return conversation.scale * sum(map(PI.message, messages))


def _approximately(conversation: Conversation, messages: Sequence[Message]) -> float:  # noqa: ARG001
    """A quarter of the characters, and three for each message."""
    return sum(DOCUMENTED.message(message) + 3 for message in messages)


def _whole_prompt(conversation: Conversation) -> float:
    return conversation.prefix


def _messages_alone(conversation: Conversation) -> float:  # noqa: ARG001
    return 0.0


def part_tokens(message: Message, part: int) -> int:
    """The size of one part of a message, in estimated tokens."""
    found = message.parts[part]
    match found:
        case ToolResult():
            return DOCUMENTED.content(found)
        case ToolCall():
            return text_tokens(found.text)
        case _:
            return DOCUMENTED.message(msgspec.structs.replace(message, parts=(found,)))


def _without_masking(settings: Settings) -> Settings:
    return msgspec.structs.replace(settings, pruning=msgspec.structs.replace(settings.pruning, enabled=False))


def _engine_policy(name: str, what: str, settings: Settings, choose: Choose = choose) -> Policy:
    gateless = msgspec.structs.replace(settings, gate=msgspec.structs.replace(settings.gate, mode="off"))
    run = _PricedRun if settings.policy == "priced" else _EngineRun
    return Policy(
        name,
        what,
        lambda conversation: run(settings, conversation, choose),
        lambda conversation: run(gateless, msgspec.structs.replace(conversation, window=0, reserve=0)),
        learns=run is _PricedRun,
    )


def _keep_newest(what: str, rule: _Rule) -> Policy:
    always = msgspec.structs.replace(rule, trigger=0.0)
    return Policy(
        rule.name,
        what,
        lambda conversation: _KeepNewest(rule, conversation),
        lambda conversation: _KeepNewest(always, conversation),
    )


def _nothing(conversation: Conversation) -> Run:  # noqa: ARG001
    return _Nothing()


_PRICED = msgspec.structs.replace(DEFAULTS, policy="priced")
_GATE_OFF = msgspec.structs.replace(DEFAULTS, gate=msgspec.structs.replace(DEFAULTS.gate, mode="off"))
_STRATEGIES_OFF = msgspec.structs.replace(DEFAULTS, enabled=False)

POLICIES: Mapping[str, Policy] = {
    policy.name: policy
    for policy in (
        Policy("none", "no pruning", _nothing, _nothing),
        _engine_policy(
            "documented",
            "repeats, superseded file outputs and inputs of failed calls left out, where that pays",
            _without_masking(DEFAULTS),
        ),
        _engine_policy(
            "two-level", "large outputs left out once the context is nearly full", _STRATEGIES_OFF
        ),
        _engine_policy("both", "documented, and masking on what remains: the default", DEFAULTS),
        _engine_policy(
            "priced",
            "old outputs cut where the prices say that it pays, repeats and noise left out",
            _without_masking(_PRICED),
        ),
        _engine_policy("ski", "what priced may cut, by the ski rental rule", _without_masking(_PRICED), ski),
        _engine_policy("every-call", "documented without its gate", _without_masking(_GATE_OFF)),
        _keep_newest(
            "all results but the newest 10 left out",
            _Rule("oldest-first", 0, 10, "[output left out]", _approximately, _messages_alone),
        ),
        _keep_newest(
            "Anthropic's clear_tool_uses_20250919 at its defaults: past 100,000 tokens of the whole prompt "
            "all results but the newest 3 left out",
            _Rule("clear-tool-uses", 100_000, 3, "[cleared to save context]", _as_billed, _whole_prompt),
        ),
        _keep_newest(
            "LangChain's ClearToolUsesEdit at its defaults: past 100,000 tokens of messages all results "
            "but the newest 3 left out",
            _Rule("langchain", 100_000, 3, "[cleared]", _approximately, _messages_alone),
        ),
    )
}
"""By name, in the order of reports."""

OPTIMAL = "optimal"
"""The name of the hindsight optimum over the documented supply; it is no policy that could run."""


def of_settings(name: str, settings: Settings, what: str) -> Policy:
    """The engine under these settings, as a policy."""
    return _engine_policy(name, what, settings)


CEILING = "ceiling"
"""The name of the hindsight optimum over what no need asks for any more; it is no policy that could run."""

_LABELS = {
    "none": "no pruning",
    "two-level": "masking",
    "both": "documented + masking",
    "clear-tool-uses": "Anthropic's rule",
    "langchain": "LangChain's rule",
    OPTIMAL: "documented in hindsight",
    CEILING: "hindsight without loss",
}


def label(policy: str) -> str:
    """What people read for the name of a policy."""
    return _LABELS.get(policy, policy)


_CHOICES = ("documented", "two-level", "both", "priced")


def can_be_chosen(name: str) -> bool:
    """Whether a policy is one that settings can switch on: not another program's, and none in hindsight."""
    return name in _CHOICES or name not in (*POLICIES, OPTIMAL, CEILING)


def named(name: str) -> Policy:
    """The policy of a name, or `documented` and `both` under the settings of a file.

    Raises:
        InputError: there is no such policy and no such file.
    """
    if name in POLICIES:
        return POLICIES[name]
    path = Path(name)
    if path.is_file():
        from prunewise.stores.settings_files import resolve

        return of_settings(path.name, resolve(path)[0], f"the settings of {path.name}")
    known = ", ".join((*POLICIES, OPTIMAL, CEILING))
    message = f"policy {name!r} is neither known nor a settings file; known policies: {known}"
    raise InputError(message)


def _reference(message: str, call_id: str) -> str:  # noqa: ARG001
    """A reference of the usual length: only its size matters here."""
    return "#1000"
