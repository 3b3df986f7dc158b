"""The engine itself: what each lane proposes, and the account by which the paid one is let through."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache

import msgspec

from prunewise import markers, tools
from prunewise.cache import UNTOLD, Warmth
from prunewise.canonical import canonical
from prunewise.engine import NOW, Engine, Moment, Proposal, Reference, Rules, place_of
from prunewise.gates import Verdict
from prunewise.gates.priced import COLD, Cheaper, Cut, Outlook, Piece
from prunewise.ledger import Target
from prunewise.priced.candidates import ERRORS, STALE, Candidate, Candidates, patience
from prunewise.priced.free import NOT_SHORTENED, REPEAT, TRIM, TRIM_GAIN, InView, shortened
from prunewise.priced.gist import with_names
from prunewise.priced.hazards import SOON, Faults, expected_calls
from prunewise.priced.purse import RECALLED_STAYS, Purse, recall_price
from prunewise.priced.recount import Recalled, Taken, call_of, recount, requests
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
    Kind,
    Message,
    ToolCall,
    ToolKind,
    ToolResult,
)

_MARKER_TOKENS = 30
_INDEX_SHARE = 0.25
_LONGEST_WAIT = 96
_BREAK_FEE = 0.3
"""What a cache break counts beyond its price, as a part of reading the request once."""
_DOUBT = 2.0
"""How many standard deviations of the cost of recalls the purse has to cover."""
_BARS = (1.0, 2.0, 4.0, 8.0, 16.0)
"""By how much what a candidate saves has to outweigh its recall's expected cost: where the purse does not
cover everything, the less likely recalls go alone."""
_FOUND = 0.5
"""Of what the request before held, the share from which on a cache counts as found."""


class PricedEngine(Engine):
    """One transcript under the priced policy."""

    def __init__(self, rules: Rules, reference: Reference, **known: object) -> None:
        """As `Engine`."""
        super().__init__(rules, reference, **known)  # pyright: ignore[reportArgumentType]
        self.warmth: Warmth = UNTOLD
        self._purse = Purse()
        self._faults = Faults()
        self._candidates = Candidates()
        self._views = InView(self._is_shown)
        self._leant_on: set[str] = set()
        """The calls whose outputs a client's "unchanged" leads to."""
        self._led_to: tuple[object, frozenset[str]] = ((), frozenset())
        self._strategies_of_its_own = (Dedupe(), SupersededOutputs())
        self._free: list[Proposal] = []
        self._chosen: list[Proposal] = []
        self._read_in = 0
        self._looked = 0
        self._latest: dict[str, Exchange] = {}
        """By path, the last exchange that read it."""
        self._origins: dict[str, tuple[str, tuple[str, ...]]] = {}
        """By the call of a recall, the sort and the files of what it brought back."""
        self._steps: list[int] = [0]
        """Up to each message, the positions that a provider's lookback counts."""
        self._ends: list[int] = []
        """Where requests ended."""
        self._book: dict[tuple[str, str], Prices] = {}
        self._billed = -1
        self._cut_at = -1
        """The LLM call at which the cache was broken last."""
        self._answer: Message | None = None
        """The last one with usage."""
        self._long_lived = False
        """Whether what was written to the cache last is to live one hour."""

    # ---- growing

    def _look(self) -> None:
        for message in self.transcript.messages[self._looked :]:
            self._note(message)
        self._looked = len(self.transcript)
        prices = self._prices(NOW)
        exchanges = self.transcript.exchanges
        for exchange in exchanges[self._read_in :]:
            self._take_up(exchange, prices)
        self._read_in = len(exchanges)
        for strategy in self._strategies_of_its_own:
            for stale in strategy.advance(self.transcript):
                self._later(strategy.name, stale, strategy.name, prices)
        self._candidates.advance(self.transcript.llm_calls)

    def _take_up(self, exchange: Exchange, prices: Prices) -> None:
        """Look at one exchange for the first time."""
        old = Stale(exchange, TOOL_RESULT, markers.OLD)
        if self._is_recall(exchange):
            self._learn_from(exchange)
            if exchange.call.id in self._origins:
                self._later(STALE, old, self._origins[exchange.call.id][0], prices)
            return
        self._hold_what_it_leans_on(exchange)
        sort = sort_of(exchange, self.transcript)
        if exchange.result_position >= max(self.transcript.sent, self.sent):
            self._at_birth(exchange, sort)
        self._views.add(exchange)
        if not exchange.result.has_image:  # images go only with a result that a newer one replaces
            self._later(STALE, old, sort, prices)
        if exchange.result.is_error:
            self._later(ERRORS, Stale(exchange, TOOL_INPUT, markers.FAILED_INPUT), ERRORS, prices)

    def _hold_what_it_leans_on(self, exchange: Exchange) -> None:
        """A client's "unchanged since last read" leads to that read, which stays in view."""
        if not exchange.refers_back:
            if exchange.operation is not None and exchange.operation.action == "read":
                self._latest[exchange.operation.path] = exchange
            return
        call, transcript = exchange.call, self.transcript
        operation = tools.file_operation(transcript.vocabulary, call.name, call.arguments, transcript.cwd)
        if operation is not None:
            read = self._latest.get(operation.path)
            if read is not None:
                self._leant_on.add(read.call.id)

    def _note(self, message: Message) -> None:
        """Positions, as a provider's lookback counts them, and where requests ended."""
        position = len(self._steps) - 1
        count, last = 0, None
        for part in message.parts:
            kind = type(part)
            if kind is not last or kind not in (ToolCall, ToolResult):
                count += 1
            last = kind
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
        if usage.cache_write:
            self._long_lived = usage.is_long_lived
        pause = None if before is None else message.pause_after(before)
        if before is None or before.usage is None or pause is None:
            return
        sent = before.usage.context_tokens - before.usage.output
        if sent > 0 and self._cut_at != self.transcript.calls_before[len(self._steps) - 2]:
            self.warmth = self.warmth.after(pause, hit=usage.cache_read >= _FOUND * sent)

    def _learn_from(self, recall: Exchange) -> None:
        """A recall shows that something was wanted: its file and its like go later from now on."""
        if recall.result.is_error:
            return
        asked = recall.call.arguments.get("ref")
        if not isinstance(asked, str):
            return
        asked = asked.strip().removesuffix(markers.FULL)
        for decision in self._ledger.standing.values():
            wanted = self.transcript.exchange(decision.target[0]) if decision.reference == asked else None
            if wanted is not None:
                sort, paths = self._origins.get(
                    wanted.call.id, (sort_of(wanted, self.transcript), self._paths(wanted))
                )
                self._faults.add(sort, paths)
                self._origins[recall.call.id] = (sort, paths)
                context = self._request_tokens()
                self._purse.recall(self._prices(NOW).at(context), context, self._size(recall, TOOL_RESULT))
                return

    # ---- the free lane

    def _at_birth(self, exchange: Exchange, sort: str) -> None:
        """What may be done to an output that has never been sent."""
        text = exchange.result.text
        if exchange.result.has_image or len(text) < 4 * self.rules.settings.priced.min_tokens:
            return
        if not self._open((exchange.call.id, TOOL_RESULT), exchange):
            return
        proposal = self._pointer(exchange, text) or self._trim(exchange, text, sort)
        if proposal is not None:
            self._free.append(proposal)

    def _open(self, target: Target, exchange: Exchange) -> bool:
        """Whether nothing has been decided on a target, and nothing protects it."""
        return not (self._decided(target) or exchange.reused_id or self._is_protected(exchange))

    def _is_protected(self, exchange: Exchange) -> bool:
        """Whether a protection forbids it; of a shell command the files that it is known to touch count."""
        reason = self._protections.reason
        if reason(exchange) is not None:
            return True
        touched = () if exchange.operation is not None else operations_of(exchange, self.transcript)
        return any(reason(msgspec.structs.replace(exchange, operation=one)) is not None for one in touched)

    def _trim(self, exchange: Exchange, text: str, sort: str) -> Proposal | None:
        settings = self.rules.settings.priced
        if sort in NOT_SHORTENED or text_tokens(text) <= settings.trim_tokens:
            return None
        reference = self.reference_of(exchange)
        if reference is None or self._is_marker(exchange, TOOL_RESULT):
            return None
        vocabulary = self.transcript.vocabulary
        is_command = exchange.call.name.lower() in vocabulary.shell
        code = markers.exit_code(exchange, vocabulary) if is_command else None
        marker = shortened(exchange, settings, reference, sort, code=code)
        return self._proposed(TRIM, exchange, marker, reference, "it is large", TRIM_GAIN)

    def _pointer(self, exchange: Exchange, text: str) -> Proposal | None:
        """An output that is in view already, byte for byte, becomes a pointer to it."""
        source = self._views.find(exchange)
        if source is None:
            return None
        reference = self.reference_of(exchange)
        if reference is None:
            return None
        marker = markers.pointer(exchange.call.name, text, reference)
        return self._proposed(REPEAT, exchange, marker, reference, "it is the same as an earlier one", 1)

    def _is_shown(self, exchange: Exchange) -> bool:
        target = (exchange.call.id, TOOL_RESULT)
        if exchange.reused_id or any(one.target == target for one in self._free):
            return False
        return target not in self._ledger.standing and target not in self.masked

    def _proposed(  # noqa: PLR0917
        self, strategy: str, exchange: Exchange, marker: str, reference: str, reason: str, least: int
    ) -> Proposal | None:
        """The free proposal; None where it takes out fewer tokens than `least`."""
        original = text_tokens(exchange.result.text)
        removed = original - text_tokens(marker)
        if removed < least:
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
        exchange, kind = stale.exchange, stale.kind
        if not self._open((exchange.call.id, kind), exchange):
            return
        size = self._size(exchange, kind)
        settings = self.rules.settings.priced
        if size <= settings.min_tokens:
            return
        index = int(min(settings.index_tokens, _INDEX_SHARE * size)) if kind == TOOL_RESULT else 0
        removed = size - _MARKER_TOKENS - index
        paths = self._paths(exchange)
        wait = self._wait(sort, paths, size, removed, prices)
        if removed <= 0 or wait is None:
            return
        is_recall = exchange.call.id in self._origins
        least = max(settings.recent_calls, RECALLED_STAYS) if is_recall else settings.recent_calls
        position = exchange.position(kind)
        born = self.transcript.calls_before[position]
        now = self.transcript.llm_calls
        since = max(born + max(wait, least), now if strategy == STALE else now + 1)
        self._candidates.put(
            Candidate(
                strategy, exchange, kind, stale.reason, sort, paths, size, removed, position, born, since
            )
        )

    def _wait(self, sort: str, paths: tuple[str, ...], size: int, removed: int, prices: Prices) -> int | None:
        """How many LLM calls old it has to be before taking it out brings more than recalls may cost."""
        rates, horizon = prices.rates, self._horizon
        saved = rates.read * removed * horizon
        recall = self.rules.settings.priced.caution * self._recall_price(rates, size)
        age = patience(self._faults.hazard(sort, paths), saved, recall) if recall else 0.0
        return None if age > _LONGEST_WAIT else math.ceil(age)

    def _paths(self, exchange: Exchange) -> tuple[str, ...]:
        """The files that an output shows or changes; of a recalled one those of the original."""
        origin = self._origins.get(exchange.call.id)
        if origin is not None:
            return origin[1]
        return tuple({one.path: None for one in operations_of(exchange, self.transcript)})

    @property
    def _horizon(self) -> float:
        """For how many LLM calls a cut is expected to serve."""
        return expected_calls(self.rules.settings.priced.survival, self.transcript.llm_calls)

    def _recall_price(self, rates: Rates, size: int) -> float:
        return recall_price(rates, self._request_tokens(), size, self._horizon)

    def _request_tokens(self) -> float:
        """The size of the request, in estimated tokens."""
        return max(self.context.estimate, self.context.raw)

    def _sent_tokens(self) -> tuple[float, float]:
        """The size of the request as it goes out, at the least and at the most. The usage by which it is
        estimated may be that of requests with what has gone, or without.
        """
        gone = self.removed_tokens
        return self._request_tokens() - gone, max(self.context.estimate, self.context.raw - gone)

    def _is_recall(self, exchange: Exchange) -> bool:
        return exchange.call.name.lower() in self.transcript.vocabulary.recall

    def _size(self, exchange: Exchange, kind: ToolKind) -> int:
        if kind == TOOL_INPUT:
            return text_tokens(exchange.call.text)
        return self.rules.estimator.content(exchange.result)

    # ---- the verdict

    def verdict(self, moment: Moment = NOW) -> Verdict:
        """What goes now: everything free, and the paid cut that the prices speak for."""
        unsent = max(self.transcript.sent, self.sent)
        free = self._free = [
            one for one in self._free if one.position >= unsent and self._allowed(one.target)
        ]
        self._account(moment, free)
        cut, taken = self._cut(moment)
        self._free = []
        paid = self._taken(taken)
        if paid:
            breaks = cut.rewritten > 0 and self._warm(moment) > COLD
            self._purse.cut(cut.price, breaks=breaks)
            if breaks:
                self._cut_at = self.transcript.llm_calls
        self._chosen = sorted([*free, *paid], key=lambda one: (one.position, one.order))
        removed = sum(one.tokens_removed for one in self._chosen)
        return Verdict(
            self.rules.settings.gate.mode,
            bool(self._chosen),
            self._horizon,
            cut.position if paid else None,
            round(cut.rewritten),
            removed,
            cut.price if paid else 0.0,
            self._prices(moment).rates.read * removed,
            None,
        )

    def pass_over(self) -> None:
        """As the engine's: what was never sent goes out in full now."""
        self._free = []

    def _account(self, moment: Moment, free: list[Proposal]) -> None:
        """Bring up to date what has been spent and gained: once for each LLM call."""
        call = self.transcript.llm_calls
        if call == self._billed:
            return
        if call and self._billed < 0:
            self._recount(moment)
        self._billed = call
        context = self._request_tokens()
        rates = self._prices(moment).at(context)
        new = self.tail_tokens(self.transcript.sent)
        warm = self._warm(moment)
        read = warm * rates.read + (1 - warm) * rates.write
        saved = read * (self.removed_tokens - self._purse.returned)
        saved += rates.write * sum(one.tokens_removed for one in free)
        self._purse.request(read * (context - new) + rates.write * new, saved)
        for one in free:
            exchange = self.transcript.exchange(one.call)
            if exchange is not None and one.strategy == TRIM:
                self._purse.take_out(sort_of(exchange, self.transcript), call, one.original_tokens)

    def _recount(self, moment: Moment) -> None:
        """Learn what the LLM calls before this engine began have cost and brought."""
        transcript = self.transcript
        sizes = self.raw_sizes(0)
        earlier = list(requests(transcript.messages, sizes))
        taken: list[Taken] = []
        for (call_id, kind), decision in self._ledger.standing.items():
            exchange = transcript.exchange(call_id)
            removed = 0 if exchange is None else self.saving_at(place_of(exchange, kind))
            if exchange is None or not removed:
                continue
            position = exchange.position(kind)
            born = call = transcript.calls_before[position]
            if decision.strategy_id not in (TRIM, REPEAT):
                call = max(born, call_of(decision.decided_at, earlier, unknown=len(earlier) - 1))
            sort = None if decision.strategy_id == REPEAT else sort_of(exchange, transcript)
            taken.append(Taken(call, born, position, removed, sort, self._size(exchange, kind)))
        recalls = [
            Recalled(one.result_position, self._size(one, TOOL_RESULT))
            for one in self.recalls
            if one.call.id in self._origins
        ]
        prices, long = self._prices(moment), self._long_lived or moment.long_lived
        recount(
            self._purse,
            prices,
            earlier,
            sizes,
            taken,
            recalls=recalls,
            warm=lambda pause: self.warmth.probability(pause, prices.rules, long=long),
        )

    def _warm(self, moment: Moment) -> float:
        """How likely what was sent before is still cached."""
        if moment.cold or not self.transcript.llm_calls:
            return 0.0
        rules, long = self._prices(moment).rules, self._long_lived or moment.long_lived
        return self.warmth.probability(moment.seconds_since_call, rules, long=long)

    def _decided(self, target: Target) -> bool:
        """Whether something stands for a target already, or was restored there."""
        ledger = self._ledger
        return target in ledger.standing or target in ledger.restored or target in self.masked

    def _allowed(self, target: Target) -> bool:
        """Whether a target may go: undecided, and no pointer leads to it."""
        return not self._decided(target) and not self._holds(target)

    def _holds(self, target: tuple[str, Kind]) -> bool:
        return target[1] == TOOL_RESULT and target[0] in self._sources()

    def _sources(self) -> frozenset[str]:
        """The calls whose outputs something leads to: a pointer that stands or is about to, or a client's."""
        state = (self._ledger, len(self.transcript), len(self._free))
        if self._led_to[0] != state:
            pointers = [one.target for one in self._ledger.standing.values() if one.strategy_id == REPEAT]
            pointers += [one.target for one in self._free if one.strategy == REPEAT]
            found = [self.transcript.exchange(call) for call, _ in pointers]
            sources = [self._views.find(one) for one in found if one is not None]
            led_to = frozenset(one.call.id for one in sources if one is not None)
            self._led_to = (state, led_to | self._leant_on)
        return self._led_to[1]

    def _cut(self, moment: Moment) -> tuple[Cut, list[Candidate]]:
        """Where to cut, and what goes by that."""
        ledger = self._ledger
        self._candidates.drop(ledger.standing.keys(), ledger.restored, self.masked.keys())
        prices = self._prices(moment)
        floor = self.covered(moment)
        ripe = [one for one in self._candidates.ripe(self._holds) if one.position >= floor]
        if not ripe:
            return Cut(), []
        settings = self.rules.settings
        if settings.gate.mode != "on":
            return Cut(ripe[-1].position), ripe
        rates = prices.at(self._sent_tokens()[0])
        outlook = self._outlook(moment, prices, rates, floor)
        pieces = self._pieces(ripe, rates)
        rewritten = cache(self._rewritten(prices))
        worth = (
            rates.read * outlook.horizon / settings.priced.caution if settings.priced.caution else math.inf
        )
        before = -1
        for bar in _BARS:
            kept = [
                at
                for at, piece in enumerate(pieces)
                if worth * piece.removed >= bar * piece.odds * piece.recall
            ]
            if len(kept) == before:
                continue
            before = len(kept)
            cut = self.rules.choose([pieces[at] for at in kept], outlook, rewritten)
            if cut.position is not None:
                return cut, [ripe[at] for at in kept if ripe[at].position >= cut.position]
            if not cut.blocked:
                break
        return Cut(), []

    def _outlook(self, moment: Moment, prices: Prices, rates: Rates, floor: int) -> Outlook:
        call, context, settings = (
            self.transcript.llm_calls,
            self._request_tokens(),
            self.rules.settings.priced,
        )
        purse, horizon = self._purse, self._horizon
        mean, variance = purse.at_stake(rates, context, call, horizon)
        least, most = self._sent_tokens()
        return Outlook(
            rates.read,
            rates.write,
            self._warm(moment),
            call,
            horizon,
            settings.patience,
            floor,
            purse.gained + settings.stake * purse.spent - mean,
            variance,
            _DOUBT,
            SOON,
            _BREAK_FEE * rates.read * context,
            purse.may_break(call),
            _cheaper(prices, least),
            least,
            most,
            self.context.raw / max(1, call),
        )

    def _pieces(self, ripe: Sequence[Candidate], rates: Rates) -> list[Piece]:
        """The candidates as the gate sees them."""
        call, context, horizon = self.transcript.llm_calls, self._request_tokens(), self._horizon
        hazard = self._faults.hazard
        return [
            Piece(
                one.position,
                one.removed,
                one.since,
                hazard(one.sort, one.paths).at(call - one.born),
                recall_price(rates, context, one.size, horizon),
            )
            for one in ripe
        ]

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

    def _taken(self, candidates: Sequence[Candidate]) -> list[Proposal]:
        """The proposals for these, with their markers; the purse learns that they go."""
        made: list[Proposal] = []
        for one in candidates:
            proposal = self._made(one)
            if proposal is not None:
                made.append(proposal)
                self._purse.take_out(one.sort, one.born, one.size)
        refused = {one.target for one in candidates} - {one.target for one in made}
        self._candidates.drop(refused)
        return made

    def _made(self, one: Candidate) -> Proposal | None:
        """The proposal with its marker, exactly."""
        reference = self.reference_of(one.exchange)
        if reference is None or self._is_marker(one.exchange, one.kind):
            return None
        exchange, settings = one.exchange, self.rules.settings.priced
        call = exchange.call
        if one.kind == TOOL_INPUT:
            marker = markers.purged_input(call.name, utf16_length(call.text), one.reason, reference)
            left = text_tokens(canonical({markers.INPUT_KEY: marker}))
        else:
            text = exchange.result.text
            room = int(min(settings.index_tokens, _INDEX_SHARE * one.size))
            told, index = with_names(text, one.sort, room)
            size, images = utf16_length(text), exchange.result.images
            marker = markers.indexed(call.name, size, one.reason, reference, index, gist=told, images=images)
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
        model = moment.model or self.transcript.model
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


def _cheaper(prices: Prices, tokens: float) -> tuple[Cheaper, ...]:
    """The price tiers below that of a request with so many tokens."""
    limits = [tier.above for tier in prices.tiers if tier.above < tokens]
    return tuple(Cheaper(limit, prices.at(limit).read, prices.at(limit).write) for limit in limits)
