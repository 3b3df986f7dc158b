"""Policies to compare: each takes a recorded conversation call by call and says what it would cut.

Ours run on the engine as it stands. The others are written from their public documentation, so that
they can be compared on the same sessions: they decide what goes, the bill and the loss are one for all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from prunewise import ledger
from prunewise.engine import Engine, Proposal, Rules
from prunewise.errors import InputError
from prunewise.ledger import Decision, Target
from prunewise.masking import engages
from prunewise.settings import DEFAULTS, Settings
from prunewise.tokens import DOCUMENTED, text_tokens
from prunewise.tools import Vocabulary
from prunewise.transcript import TOOL_RESULT, Exchange, Kind, Message, ToolCall, ToolResult, Transcript


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

    @property
    def removed(self) -> int:
        """What it takes out of each request, in tokens."""
        return self.before - self.after


class Conversation(msgspec.Struct, frozen=True):
    """What a policy may know of the conversation beforehand."""

    vocabulary: Vocabulary
    cwd: str | None = None
    window: int = 200_000
    """The model's context window, in tokens."""
    reserve: int = 16_384


class Run(Protocol):
    """A policy at work on one conversation."""

    def begin(self) -> None:
        """A new epoch: the messages start again; what was decided before goes on standing."""
        ...

    def step(self, new: Sequence[Message], call: int) -> list[Cut]:
        """What goes at this LLM call, whose request has these messages beyond those of the call before."""
        ...


class Policy(msgspec.Struct, frozen=True):
    """A policy by name."""

    name: str
    what: str
    """What it does, in one line."""
    start: Callable[[Conversation], Run]
    eager: Callable[[Conversation], Run]
    """The same rules without gate or trigger: each cut at the first LLM call at which it may be made.
    Its cuts are the policy's supply, from which the hindsight optimum chooses."""


class _Nothing:
    """No pruning."""

    def begin(self) -> None:
        """Nothing is remembered."""

    def step(self, new: Sequence[Message], call: int) -> list[Cut]:  # noqa: ARG002
        """Nothing goes."""
        return []


class _EngineRun:
    """The engine under one settings value, with a ledger in memory."""

    def __init__(self, settings: Settings, conversation: Conversation) -> None:
        self._rules = Rules(settings)
        self._conversation = conversation
        self._ledger = ledger.EMPTY
        self._engaged = False
        self.begin()

    def begin(self) -> None:
        """A fresh engine under the decisions that stand; masking starts again from raw."""
        self._engaged = False
        self._engine = Engine(
            self._rules, _reference, cwd=self._conversation.cwd, vocabulary=self._conversation.vocabulary
        )
        self._engine.follow(self._ledger)

    def step(self, new: Sequence[Message], call: int) -> list[Cut]:
        """What the gate lets through, and what masking replaces."""
        engine = self._engine
        engine.extend(new)
        cuts = [self._standing(position, part, call) for position, part in self._take_touched()]
        if self._rules.settings.enabled and engine.has_proposals and engine.verdict().accepted:
            proposals = engine.proposals
            self._record(proposals)
            cuts += [self._cut(proposal, call) for proposal in proposals]
        if self._rules.settings.pruning.enabled:
            cuts += self._mask(call)
        engine.touched.clear()
        return cuts

    def _take_touched(self) -> list[tuple[int, int]]:
        """Where decisions of an earlier epoch stand in messages that were kept."""
        engine = self._engine
        places = [(at, part) for at in sorted(engine.touched) for part in sorted(engine.edits.get(at, ()))]
        engine.touched.clear()
        return places

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
                one.strategy, one.call, one.kind, reason=one.reason, placeholder=one.marker, created_at=""
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


class _KeepNewest:
    """Clears the results of the oldest calls, all but the newest so many, once the context is past a size."""

    def __init__(
        self, conversation: Conversation, *, name: str, trigger: int, keep: int, placeholder: str
    ) -> None:
        self._conversation = conversation
        self._name, self._trigger, self._keep = name, trigger, keep
        self._placeholder = placeholder
        self.begin()

    def begin(self) -> None:
        """What was cleared is cleared again by the same rule."""
        self._transcript = Transcript(cwd=self._conversation.cwd, vocabulary=self._conversation.vocabulary)
        self._tokens = 0
        self._cleared = 0

    def step(self, new: Sequence[Message], call: int) -> list[Cut]:
        """What the rule clears now and had not cleared before."""
        self._transcript.extend(new)
        self._tokens += sum(DOCUMENTED.message(message) for message in new)
        exchanges = self._transcript.exchanges
        if self._tokens <= self._trigger:
            return []
        end = max(self._cleared, len(exchanges) - self._keep)
        cuts = [self._cut(exchange, call) for exchange in exchanges[self._cleared : end]]
        self._cleared = end
        return [cut for cut in cuts if cut.removed > 0]

    def _cut(self, exchange: Exchange, call: int) -> Cut:
        before = DOCUMENTED.content(exchange.result)
        place = (exchange.result_position, exchange.result_part)
        return Cut(
            call, *place, TOOL_RESULT, before, text_tokens(self._placeholder), self._name, self._placeholder
        )


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


def _engine_policy(name: str, what: str, settings: Settings) -> Policy:
    gateless = msgspec.structs.replace(settings, gate=msgspec.structs.replace(settings.gate, mode="off"))
    return Policy(
        name,
        what,
        lambda conversation: _EngineRun(settings, conversation),
        lambda conversation: _EngineRun(gateless, msgspec.structs.replace(conversation, window=0, reserve=0)),
    )


def _keep_newest(name: str, what: str, trigger: int, keep: int, placeholder: str) -> Policy:
    def make(trigger: int) -> Callable[[Conversation], Run]:
        return lambda conversation: _KeepNewest(
            conversation, name=name, trigger=trigger, keep=keep, placeholder=placeholder
        )

    return Policy(name, what, make(trigger), make(0))


def _nothing(conversation: Conversation) -> Run:  # noqa: ARG001
    return _Nothing()


_GATE_OFF = msgspec.structs.replace(DEFAULTS, gate=msgspec.structs.replace(DEFAULTS.gate, mode="off"))
_STRATEGIES_OFF = msgspec.structs.replace(DEFAULTS, enabled=False)

POLICIES: Mapping[str, Policy] = {
    policy.name: policy
    for policy in (
        Policy("none", "no pruning", _nothing, _nothing),
        _engine_policy(
            "documented",
            "duplicates, superseded reads and failed inputs behind the break-even gate",
            _without_masking(DEFAULTS),
        ),
        _engine_policy("two-level", "large outputs masked once the window is near", _STRATEGIES_OFF),
        _engine_policy("both", "documented, and two-level on what remains", DEFAULTS),
        _engine_policy("every-call", "documented without its gate", _without_masking(_GATE_OFF)),
        _keep_newest("oldest-first", "all results but the newest 10", 0, 10, "[output left out]"),
        _keep_newest(
            "clear-tool-uses",
            "Anthropic's clear_tool_uses_20250919 at its defaults: past 100,000 tokens all but the newest 3",
            100_000,
            3,
            "[cleared to save context]",
        ),
        _keep_newest(
            "langchain",
            "LangChain's ClearToolUsesEdit at its defaults: past 100,000 tokens all but the newest 3",
            100_000,
            3,
            "[cleared]",
        ),
    )
}
"""By name, in the order of reports."""

OPTIMAL = "optimal"
"""The name of the hindsight optimum over the documented supply; it is no policy that could run."""


def of_settings(name: str, settings: Settings, what: str) -> Policy:
    """The engine under these settings, as a policy."""
    return _engine_policy(name, what, settings)


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
    known = ", ".join((*POLICIES, OPTIMAL))
    message = f"policy {name!r} is neither known nor a settings file; known policies: {known}"
    raise InputError(message)


def _reference(message: str, call_id: str) -> str:  # noqa: ARG001
    """A reference of the usual length: only its size matters here."""
    return "#1000"
