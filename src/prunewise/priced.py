"""The engine under the priced policy: two lanes, what the cache holds, and when a cut pays.

The free lane acts on what has never been sent: it shortens large outputs, and lets an output that is in
view already point there. The paid lane cuts behind, batched and rarely: what is old, repeated,
superseded or failed, where the prices say that it pays. Decisions are made once and stand, as ever.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Callable, Iterator

import msgspec

from prunewise import condense, markers, tools
from prunewise.cache import UNTOLD, Warmth
from prunewise.canonical import canonical
from prunewise.engine import NOW, Engine, Moment, Proposal, Reference, Rules
from prunewise.gates import Verdict
from prunewise.gates.priced import COLD, Cut, Outlook, Piece
from prunewise.ledger import Decision, Target
from prunewise.prices import Prices, Rates, assumed_prices, prices_for
from prunewise.strategies.dedupe import Dedupe
from prunewise.strategies.sorting import operations_of, sort_of
from prunewise.strategies.stale import Stale
from prunewise.strategies.superseded_outputs import SupersededOutputs
from prunewise.tokens import text_tokens, utf16_length
from prunewise.transcript import (
    TOOL_INPUT,
    TOOL_RESULT,
    Exchange,
    Message,
    Thinking,
    ToolCall,
    ToolKind,
    ToolResult,
)

TRIM = "birth-trim"
REPEAT = "repeated-output"
STALE = "stale-outputs"
ERRORS = "error-purge"

_MARKER_TOKENS = 30
_TROUBLE_LINES = 10
_INDEX_SHARE = 0.25
_RECALL_TOKENS = 150
"""What a model writes to ask for a recall."""
_LONGEST_WAIT = 96
_TRIM_GAIN = 200
_BREAK_FEE = 0.3
"""What a cache break counts beyond its price, as a part of reading the request once."""
_BREAK_RATE = 0.025
"""How many cache breaks an LLM call allows."""
_BREAK_LEAD = 50
"""So many LLM calls are taken to have gone before, so that a short session may have one."""
_RECALL_STAKE = 0.25
"""What one recall may cost at the most, beyond what pruning has brought, as a part of what was spent."""
_FOUND = 0.5
"""Of what the request before held, the share from which on a cache counts as found."""
_NO_TRIM = frozenset({"read", "change"})


class Hazard(msgspec.Struct, frozen=True):
    """How likely an output is needed again after it went, once it is so many LLM calls old."""

    fresh: float
    """At no age."""
    fades: float
    """After so many calls it is down to a third (1/e)."""

    def at(self, age: float) -> float:
        """The likelihood at an age."""
        return self.fresh * math.exp(-age / self.fades)


HAZARDS: dict[str, Hazard] = {
    "read": Hazard(0.25, 12.0),
    "list": Hazard(0.10, 8.0),
    "web": Hazard(0.10, 12.0),
    "other": Hazard(0.04, 12.0),
    "search": Hazard(0.04, 12.0),
    "git": Hazard(0.04, 12.0),
    "test": Hazard(0.01, 8.0),
    "follow": Hazard(0.01, 8.0),
    "change": Hazard(0.01, 8.0),
    "dedupe": Hazard(0.01, 8.0),
    "superseded-file-ops": Hazard(0.10, 8.0),
    "error-purge": Hazard(0.02, 8.0),
}


class _Waiting(msgspec.Struct):
    """What may go from some LLM call on."""

    strategy: str
    exchange: Exchange
    kind: ToolKind
    reason: str
    sort: str
    size: int
    removed: int
    position: int
    since: int


class PricedEngine(Engine):
    """One transcript under the priced policy."""

    def __init__(self, rules: Rules, reference: Reference, **known: object) -> None:
        """As `Engine`."""
        super().__init__(rules, reference, **known)  # pyright: ignore[reportArgumentType]
        self.warmth: Warmth = UNTOLD
        self._own = (Dedupe(), SupersededOutputs())
        self._read_in = 0
        self._free: list[Proposal] = []
        self._waiting: dict[Target, _Waiting] = {}
        self._calendar: list[tuple[int, int, Target]] = []
        self._pieces: dict[Target, _Waiting] = {}
        self._chosen: list[Proposal] = []
        self._texts: dict[str, list[Exchange]] = {}
        self._held: set[str] = set()
        self._steps: list[int] = [0]
        self._ends: list[int] = []
        self._signed = 0
        self._looked = 0
        self._book: dict[tuple[str, str], Prices] = {}
        self._spent = self._gained = 0.0
        """What the requests so far have cost, and what pruning has brought, in base input tokens."""
        self._billed = -1
        self._breaks = 0
        self._cut_at = -1
        """The LLM call at which the cache was broken last."""
        self._answer: Message | None = None
        """The last one with usage."""
        self._faults: Counter[str] = Counter()
        """How often outputs of a sort were recalled."""
        self._wanted: set[str] = set()
        """Files whose content was recalled."""
        self._largest = 0

    # ---- growing

    def _look(self) -> None:
        for message in self.transcript.messages[self._looked :]:
            self._note(message)
        self._looked = len(self.transcript)
        prices = self._prices(NOW)
        exchanges = self.transcript.exchanges
        unsent = max(self.transcript.sent, self.sent)
        for exchange in exchanges[self._read_in :]:
            self._learn_from(exchange)
            sort = sort_of(exchange, self.transcript)
            if exchange.result_position >= unsent:
                self._at_birth(exchange, sort)
            self._later(STALE, Stale(exchange, TOOL_RESULT, markers.OLD), sort, prices)
            if exchange.result.is_error:
                self._later(ERRORS, Stale(exchange, TOOL_INPUT, markers.FAILED_INPUT), ERRORS, prices)
        self._read_in = len(exchanges)
        for strategy in self._own:
            for stale in strategy.advance(self.transcript):
                self._later(strategy.name, stale, strategy.name, prices)
        now = self.transcript.llm_calls
        while self._calendar and self._calendar[0][0] <= now:
            since, _, target = heapq.heappop(self._calendar)
            waiting = self._waiting.get(target)
            if waiting is not None and waiting.since == since:
                del self._waiting[target]
                self._pieces[target] = waiting

    def _note(self, message: Message) -> None:
        """Positions, as a provider's lookback counts them; where requests ended; where signatures bind."""
        position = len(self._steps) - 1
        count, last = 0, None
        for part in message.parts:
            kind = type(part)
            if kind is not last or kind not in (ToolCall, ToolResult):
                count += 1
            last = kind
            if type(part) is Thinking and part.signature:
                self._signed = position
        self._steps.append(self._steps[-1] + count)
        if message.role == "assistant":
            self._ends.append(position)
            self._learn(message)

    def _learn(self, message: Message) -> None:
        """Whether an answer's request found what the one before it had left, by its usage."""
        usage, before = message.usage, self._answer
        if usage is None:
            return
        self._answer = message
        if before is None or before.usage is None or message.time is None or before.time is None:
            return
        sent = before.usage.context_tokens - before.usage.output
        if sent > 0 and self._cut_at != self.transcript.calls_before[len(self._steps) - 2]:
            self.warmth = self.warmth.after(
                max(0.0, message.time - before.time), hit=usage.cache_read >= _FOUND * sent
            )

    def _learn_from(self, exchange: Exchange) -> None:
        """A recall shows that something was wanted: its file stays from now on, its like goes later."""
        if exchange.call.name.lower() not in self.transcript.vocabulary.recall or exchange.result.is_error:
            return
        asked = exchange.call.arguments.get("ref")
        for decision in self._ledger.standing.values():
            if decision.reference == asked:
                wanted = self.transcript.exchange(decision.target[0])
                if wanted is not None:
                    self.missed(wanted)
                return

    def missed(self, exchange: Exchange) -> None:
        """Take in that what went of an exchange was wanted after all."""
        self._faults[sort_of(exchange, self.transcript)] += 1
        self._want({one.path for one in operations_of(exchange, self.transcript)})

    def _want(self, paths: set[str]) -> None:
        """Files whose content stays from now on."""
        self._wanted |= paths
        for held in (self._pieces, self._waiting):
            for target in [target for target, one in held.items() if self._is_wanted(one.exchange)]:
                del held[target]

    # ---- the free lane

    def _at_birth(self, exchange: Exchange, sort: str) -> None:
        """What may be done to an output that has never been sent."""
        target = (exchange.call.id, TOOL_RESULT)
        if not self._open(target, exchange):
            return
        text = exchange.result.text
        if exchange.result.has_image or len(text) < 4 * self.rules.settings.priced.min_tokens:
            return
        proposal = self._pointer(exchange, text) or self._trim(exchange, text, sort)
        if proposal is not None:
            self._free.append(proposal)

    def _open(self, target: Target, exchange: Exchange) -> bool:
        """Whether nothing has been decided on a target, and nothing protects it."""
        return not (
            self._decided(target)
            or exchange.reused_id
            or exchange.call.name.lower() in self.transcript.vocabulary.recall
            or self._protections.reason(exchange) is not None
        )

    def _trim(self, exchange: Exchange, text: str, sort: str) -> Proposal | None:
        settings = self.rules.settings.priced
        original = text_tokens(text)
        if sort in _NO_TRIM or original <= settings.trim_tokens:
            return None
        reference = self.reference_of(exchange)
        if reference is None or markers.reference_in(text) is not None:
            return None
        kept, _ = condense.ends(text, settings.trim_lines, _TROUBLE_LINES)
        shown = "\n".join(kept)
        index = condense.index(text, settings.index_tokens, condense.names(shown))
        code = markers.exit_code(exchange) if self._is_shell(exchange) else None
        facts = markers.extent(text, code)
        marker = markers.trimmed(exchange.call.name, facts, shown, index, reference)
        return self._proposed(TRIM, exchange, marker, "it is large")

    def _is_shell(self, exchange: Exchange) -> bool:
        return exchange.call.name.lower() in self.transcript.vocabulary.shell

    def _pointer(self, exchange: Exchange, text: str) -> Proposal | None:
        """An output that is in view already, byte for byte, becomes a pointer to it."""
        alike = self._texts.setdefault(text, [])
        source = next((one for one in reversed(alike) if self._in_view(one)), None)
        if source is None:
            alike.append(exchange)
            return None
        reference = self.reference_of(exchange)
        if reference is None:
            return None
        marker = markers.pointer(exchange.call.name, text, reference)
        made = self._proposed(REPEAT, exchange, marker, "it is in view")
        if made is not None:
            self._held.add(source.call.id)
        return made

    def _in_view(self, exchange: Exchange) -> bool:
        target = (exchange.call.id, TOOL_RESULT)
        return target not in self._ledger.standing and target not in self.masked and not exchange.reused_id

    def _proposed(self, strategy: str, exchange: Exchange, marker: str, reason: str) -> Proposal | None:
        original = text_tokens(exchange.result.text)
        removed = original - text_tokens(marker)
        reference = self.reference_of(exchange)
        if reference is None or removed < (_TRIM_GAIN if strategy == TRIM else 1):
            return None
        return Proposal(
            strategy,
            TOOL_RESULT,
            exchange.call.id,
            exchange.result_position,
            original,
            removed,
            reason,
            "free",
            exchange.order,
            marker,
            reference,
        )

    # ---- the paid lane

    def _later(self, strategy: str, stale: Stale, sort: str, prices: Prices) -> None:
        """Note from which LLM call on a part may go."""
        exchange, kind, reason = stale.exchange, stale.kind, stale.reason
        target = (exchange.call.id, kind)
        if not self._open(target, exchange):
            return
        size = self._size(exchange, kind)
        settings = self.rules.settings.priced
        if size <= settings.min_tokens or self._is_wanted(exchange):
            return
        index = int(min(settings.index_tokens, _INDEX_SHARE * size)) if kind == TOOL_RESULT else 0
        removed = size - _MARKER_TOKENS - index
        position = exchange.position(kind)
        hazard = HAZARDS[sort]
        hazard = Hazard(hazard.fresh * (1 + self._faults[sort]), hazard.fades)
        wait = self._wait(hazard, size, removed, prices)
        if removed <= 0 or wait is None:
            return
        born = self.transcript.calls_before[position]
        now = self.transcript.llm_calls
        since = max(born + wait, now if strategy == STALE else now + 1)
        known = self._pieces.get(target) or self._waiting.get(target)
        if known is not None and known.since <= since:
            return
        self._waiting[target] = _Waiting(
            strategy, exchange, kind, reason, sort, size, removed, position, since
        )
        self._pieces.pop(target, None)
        heapq.heappush(self._calendar, (since, exchange.order, target))

    def _is_wanted(self, exchange: Exchange) -> bool:
        return bool(self._wanted) and any(
            one.path in self._wanted for one in operations_of(exchange, self.transcript)
        )

    def _wait(self, hazard: Hazard, size: int, removed: int, prices: Prices) -> int | None:
        """How many LLM calls old it has to be before taking it out brings more than recalls may cost."""
        settings = self.rules.settings.priced
        rates, horizon = prices.rates, settings.horizon
        recall = self._recall_price(rates, size)
        saved = rates.read * removed * horizon
        if saved <= 0:
            return None
        odds = settings.caution * hazard.fresh * recall / saved
        wait = math.ceil(hazard.fades * math.log(odds)) if odds > 1 else 0
        return None if wait > _LONGEST_WAIT else max(wait, settings.recent_calls)

    def _recall_price(self, rates: Rates, size: int) -> float:
        """What it costs to bring back an output: to write it, one more call, and to hold it from then on."""
        held = rates.read * size * self.rules.settings.priced.horizon / 2
        return rates.write * size + rates.read * self._request_tokens() + held + rates.output * _RECALL_TOKENS

    def _request_tokens(self) -> float:
        """The size of the request, in estimated tokens."""
        return max(self.context.estimate, self.context.raw)

    def _size(self, exchange: Exchange, kind: ToolKind) -> int:
        if kind == TOOL_INPUT:
            return text_tokens(exchange.call.text)
        return self.rules.estimator.content(exchange.result)

    # ---- the verdict

    def verdict(self, moment: Moment = NOW) -> Verdict:
        """What goes now: everything free, and the paid cut that the prices speak for."""
        unsent = max(self.transcript.sent, self.sent)
        free = [one for one in self._free if one.position >= unsent and self._allowed(one.target)]
        self._free = []
        self._account(moment, free)
        cut = self._cut(moment)
        self._gained -= cut.price
        if cut.position is not None and cut.rewritten and self._warm(moment) > COLD:
            self._breaks += 1
            self._cut_at = self.transcript.llm_calls
        paid: list[Proposal] = []
        if cut.position is not None:
            paid = list(self._taken(cut.position))
        self._chosen = sorted([*free, *paid], key=lambda one: (one.position, one.order))
        return Verdict(
            self.rules.settings.gate.mode,
            bool(self._chosen),
            self.rules.settings.priced.horizon,
            cut.position if paid else None,
            round(cut.rewritten),
            sum(one.tokens_removed for one in self._chosen),
            cut.price if paid else 0.0,
            self._prices(moment).rates.read * sum(one.tokens_removed for one in self._chosen),
            None,
        )

    def _account(self, moment: Moment, free: list[Proposal]) -> None:
        """Bring up to date what has been spent and gained: once for each LLM call."""
        call = self.transcript.llm_calls
        if call == self._billed:
            return
        context = self._request_tokens()
        rates = self._prices(moment).at(context)
        new = self.tail_tokens(self.transcript.sent)
        warm = self._warm(moment)
        read = warm * rates.read + (1 - warm) * rates.write
        self._billed = call
        self._spent += read * (context - new) + rates.write * new
        self._gained += read * self.removed_tokens
        self._gained += rates.write * sum(one.tokens_removed for one in free)

    def _warm(self, moment: Moment) -> float:
        """How likely what was sent before is still cached."""
        if moment.cold or not self.transcript.llm_calls:
            return 0.0
        return self.warmth.probability(moment.seconds_since_call, self._prices(moment).rules)

    def _decided(self, target: Target) -> bool:
        """Whether something stands for a target already, or was restored there."""
        ledger = self._ledger
        return target in ledger.standing or target in ledger.restored or target in self.masked

    def _allowed(self, target: Target) -> bool:
        """Whether a target may go: undecided, and no pointer leads to it."""
        return not self._decided(target) and not (target[1] == TOOL_RESULT and target[0] in self._held)

    def _cut(self, moment: Moment) -> Cut:
        for target in [one for one in self._pieces if self._decided(one)]:
            del self._pieces[target]
        waiting = [one for target, one in self._pieces.items() if self._allowed(target)]
        if not waiting:
            return Cut()
        settings = self.rules.settings
        prices = self._prices(moment)
        rates, rules = prices.at(self._request_tokens()), prices.rules
        most = self._gained + _RECALL_STAKE * self._spent
        waiting = [one for one in waiting if self._recall_price(rates, one.size) <= most]
        if not waiting:
            return Cut()
        self._largest = max(one.size for one in waiting)
        waiting.sort(key=lambda one: one.position, reverse=True)
        if settings.gate.mode != "on":
            return Cut(waiting[-1].position)
        call = self.transcript.llm_calls
        outlook = Outlook(
            rates.read,
            rates.write,
            self._warm(moment),
            call,
            settings.priced.horizon,
            settings.priced.patience,
            self._signed + 1 if rules.signed and not moment.drops_thinking else 0,
            self._gained + settings.priced.stake * self._spent,
            _BREAK_FEE * rates.read * self._request_tokens(),
            self._breaks + 1 <= _BREAK_RATE * (call + _BREAK_LEAD),
        )
        pieces = [Piece(one.position, one.removed, one.since) for one in waiting]
        return self.rules.choose(pieces, outlook, self._rewritten(prices))

    def _rewritten(self, prices: Prices) -> Callable[[int], float]:
        """For a position what was cached behind it, or behind the last place before it that is found."""
        sent = self.transcript.sent
        behind = self.tail_tokens(sent)
        lookback = prices.rules.lookback if prices.rules.style == "explicit" else None
        reach = 0
        if lookback is not None:
            least = self._steps[-1] - lookback
            reach = next((end for end in self._ends if self._steps[end] > least), sent)

        def rewritten(position: int) -> float:
            if lookback is None:
                return self.tail_tokens(position) - behind
            kept = max((end for end in self._ends if reach <= end <= position), default=0)
            return self.tail_tokens(kept) - behind

        return rewritten

    def _taken(self, position: int) -> Iterator[Proposal]:
        for target, one in list(self._pieces.items()):
            if one.position < position or not self._allowed(target) or one.size > self._largest:
                continue
            proposal = self._made(one)
            if proposal is None:
                del self._pieces[target]
            else:
                yield proposal

    def _made(self, one: _Waiting) -> Proposal | None:
        """The proposal with its marker, exactly."""
        reference = self.reference_of(one.exchange)
        if reference is None:
            return None
        exchange, settings = one.exchange, self.rules.settings.priced
        call = exchange.call
        if one.kind == TOOL_INPUT:
            if markers.stands_for_input(call.arguments):
                return None
            marker = markers.purged_input(call.name, utf16_length(call.text), one.reason, reference)
            left = text_tokens(canonical({markers.INPUT_KEY: marker}))
        else:
            text = exchange.result.text
            if markers.reference_in(text) is not None:
                return None
            index = condense.index(text, int(min(settings.index_tokens, _INDEX_SHARE * one.size)))
            marker = markers.indexed(call.name, utf16_length(text), one.reason, reference, index)
            left = text_tokens(marker)
        if one.size - left <= 0:
            return None
        return Proposal(
            one.strategy,
            one.kind,
            call.id,
            one.position,
            one.size,
            one.size - left,
            one.reason,
            "paid",
            exchange.order,
            marker,
            reference,
        )

    def _prices(self, moment: Moment) -> Prices:
        """What the model at hand costs."""
        model = moment.model
        if not model:
            model = next((one.model for one in reversed(self.transcript.messages) if one.model), "")
        key = (model, moment.provider)
        found = self._book.get(key)
        if found is None:
            book = self.rules.prices
            ask = getattr(book, "prices_for", None)
            found = ask(*key) if ask else prices_for(*key) or assumed_prices(model)
            self._book[key] = found
        return found

    # ---- what is decided

    def accepted(self, verdict: Verdict) -> list[Proposal]:
        """What goes by this verdict, which is the last one given."""
        return self._chosen if verdict.accepted else []

    @property
    def has_proposals(self) -> bool:
        """Whether anything was chosen."""
        return bool(self._chosen)

    @property
    def proposals(self) -> list[Proposal]:
        """What was chosen."""
        return self._chosen

    def _stand(self, exchange: Exchange, decision: Decision) -> None:
        super()._stand(exchange, decision)
        if decision.strategy_id == REPEAT:
            alike = self._texts.get(exchange.result.text, ())
            source = next((one for one in reversed(alike) if self._in_view(one)), None)
            if source is not None:
                self._held.add(source.call.id)


def engine_for(
    rules: Rules,
    reference: Reference,
    *,
    cwd: str | None = None,
    vocabulary: tools.Vocabulary = tools.PI,
    recalled: Callable[[str, Exchange], str | None] | None = None,
) -> Engine:
    """The engine that the settings ask for."""
    make = PricedEngine if rules.settings.policy == "priced" else Engine
    return make(rules, reference, cwd=cwd, vocabulary=vocabulary, recalled=recalled)
