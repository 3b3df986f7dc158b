"""The engine itself: what each lane proposes, and the account by which the paid one is let through."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import cache

import msgspec

from prunewise import markers, tools
from prunewise.cache import UNTOLD, Warmth
from prunewise.canonical import canonical
from prunewise.engine import NOW, Engine, Moment, Proposal, Reference, Rules, place_of
from prunewise.gates import Verdict
from prunewise.gates.priced import Cheaper, Cut, Outlook, Piece
from prunewise.ledger import Decision, Target
from prunewise.priced.account import RECALLED_STAYS, Account, Request, Taken, recall_price
from prunewise.priced.candidates import ERRORS, STALE, Candidate
from prunewise.priced.free import FREE, NOISE, NOISY, REPEAT, SAME, InView, without_noise
from prunewise.priced.hazards import HAZARDS, SOON, Needs, expected_calls
from prunewise.prices import Prices, Rates, assumed_prices, prices_for
from prunewise.strategies.dedupe import Dedupe
from prunewise.strategies.sorting import named_by, operations_of, sort_of
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

_DOUBT = 2.5
"""How many standard deviations of the cost of recalls the account has to cover."""
_PROOF = 3
"""So many outputs have to stay away for each that was recalled, and one more, until cuts may be large."""
_FOUND = 0.5
"""Of what the request before held, the share from which on a cache counts as found."""
_SAME_INSTANT = 0.002
"""Seconds by which a decision may be dated behind the answer to its request: entries have milliseconds."""


class Choice(msgspec.Struct, frozen=True):
    """What goes now, by one verdict."""

    verdict: Verdict
    proposals: list[Proposal]


class _Answer(msgspec.Struct, frozen=True, gc=False):
    """An answer of the model, and the request that led to it."""

    message: Message
    request: Request
    before: Message | None
    """The answer before it."""


class PricedEngine(Engine):
    """One transcript under the priced policy."""

    def __init__(self, rules: Rules, reference: Reference, **known: object) -> None:
        """As `Engine`."""
        super().__init__(rules, reference, **known)  # pyright: ignore[reportArgumentType]
        self.warmth: Warmth = UNTOLD
        self._account = Account()
        self._needs = Needs()
        self._candidates: dict[Target, Candidate] = {}
        self._views = InView(self._is_shown)
        self._leant_on: set[str] = set()
        """The calls whose outputs a client's "unchanged" leads to."""
        self._led_to: tuple[object, set[str]] = ((), set())
        self._strategies_of_its_own = (Dedupe(), SupersededOutputs())
        self._choice: Choice | None = None
        self._read_in = 0
        self._looked = 0
        self._latest: dict[str, Exchange] = {}
        """By path, the last exchange that read it."""
        self._origins: dict[str, Decision] = {}
        """By the call of a recall, the decision whose output it brought back."""
        self._positions: dict[str, int] = {}
        """Of each message, by its id."""
        self._steps: list[int] = [0]
        """Up to each message, the positions that a provider's lookback counts."""
        self._ends: list[int] = []
        """Where requests ended."""
        self._answers: list[_Answer] = []
        self._accounted = 0
        """How many of them are in the account."""
        self._context_size = 0.0
        """The size of the messages noted, by the last usage and what came after it."""
        self._totals: list[float] = [0.0]
        """Up to each message, the tokens without pruning."""
        self._fresh: list[tuple[Decision, int]] = []
        """The decisions that are not in the account, each with the LLM call at which it was first seen."""
        self._book: dict[tuple[str, str], Prices] = {}
        self._long_lived = False
        """Whether what was written to the cache last is to live one hour."""

    # ---- growing

    def _look(self) -> None:
        for message in self.transcript.messages[self._looked :]:
            self._note(message)
        self._looked = len(self.transcript)
        exchanges = self.transcript.exchanges
        for exchange in exchanges[self._read_in :]:
            self._take_up(exchange)
        self._read_in = len(exchanges)
        for strategy in self._strategies_of_its_own:
            for stale in strategy.advance(self.transcript):
                self._later(strategy.name, stale, strategy.name)

    def _take_up(self, exchange: Exchange) -> None:
        """Look at one exchange for the first time."""
        if self._is_recall(exchange):
            self._learn_from(exchange)
        else:
            self._note_what_it_leans_on(exchange)
            self._views.add(exchange)
        if not exchange.result.has_image:  # images go only with a result that a newer one replaces
            self._later(STALE, Stale(exchange, TOOL_RESULT, markers.OLD), self._sort(exchange))
        if exchange.result.is_error:
            self._later(ERRORS, Stale(exchange, TOOL_INPUT, markers.FAILED_INPUT), ERRORS)

    def _note_what_it_leans_on(self, exchange: Exchange) -> None:
        """A client's "unchanged since last read" leads to that read, which stays in view."""
        if not exchange.refers_back:
            if exchange.operation is not None and exchange.operation.action == "read":
                self._latest[exchange.operation.path] = exchange
            return
        call, transcript = exchange.call, self.transcript
        operation = tools.file_operation(transcript.vocabulary, call.name, call.arguments, transcript.cwd)
        read = None if operation is None else self._latest.get(operation.path)
        if read is not None:
            self._leant_on.add(read.call.id)

    def _note(self, message: Message) -> None:
        """Sizes, positions as a provider's lookback counts them, and where requests ended."""
        position = len(self._steps) - 1
        self._positions[message.id] = position
        count, last = 0, None
        for part in message.parts:
            kind = type(part)
            if kind is not last or kind not in (ToolCall, ToolResult):
                count += 1
            last = kind
        self._steps.append(self._steps[-1] + count)
        size = self.rules.estimator.message(message)
        if message.role == "assistant":
            if not position or self.transcript.messages[position - 1].role != "assistant":
                before = self._answers[-1] if self._answers else None
                sent = 0 if before is None else self._ends[-1] + 1
                pause = None if before is None else message.pause_after(before.message)
                context = max(self._context_size, self._totals[-1])
                answer = _Answer(
                    message,
                    Request(position, sent, context, pause),
                    None if before is None else before.message,
                )
                self._answers.append(answer)
            self._ends.append(position)
            if message.usage is not None and message.usage.cache_write:
                self._long_lived = message.usage.is_long_lived
        self._context_size = (
            self._context_size + size if message.usage is None else message.usage.context_tokens
        )
        self._totals.append(self._totals[-1] + size)

    def _learn_from(self, recall: Exchange) -> None:
        """A recall shows that something was wanted: its file and its like go later from now on."""
        asked = recall.call.arguments.get("ref")
        if recall.result.is_error or not isinstance(asked, str):
            return
        asked = asked.strip().removesuffix(markers.FULL)
        for decision in self._ledger.standing.values():
            wanted = self.transcript.exchange(decision.target[0]) if decision.reference == asked else None
            if wanted is not None:
                self._origins[recall.call.id] = self._origins.get(wanted.call.id, decision)
                self._needs.add(self._sort(wanted), self._paths(wanted))
                return

    def _sort(self, exchange: Exchange) -> str:
        """The sort of an output; of a recalled one that of the original."""
        return sort_of(self._original(exchange), self.transcript)

    def _paths(self, exchange: Exchange) -> tuple[str, ...]:
        """The files that an output shows or changes; of a recalled one those of the original."""
        original = self._original(exchange)
        return tuple({one.path: None for one in operations_of(original, self.transcript)})

    def _original(self, exchange: Exchange) -> Exchange:
        decision = self._origins.get(exchange.call.id)
        original = None if decision is None else self.transcript.exchange(decision.target[0])
        return exchange if original is None else original

    def _is_recall(self, exchange: Exchange) -> bool:
        return exchange.call.name.lower() in self.transcript.vocabulary.recall

    # ---- candidates

    def _later(self, strategy: str, stale: Stale, sort: str) -> None:
        """Note from which LLM call on a part may go: never before the model has answered to it."""
        exchange, kind = stale.exchange, stale.kind
        settings = self.rules.settings.priced
        if self._is_recall(exchange) and exchange.call.id not in self._origins:
            return
        if exchange.reused_id or self._is_protected(exchange):
            return
        proposal = self._proposal(strategy, exchange, kind, stale.reason)
        if proposal is None or proposal.original_tokens <= settings.min_tokens:
            return
        stays = RECALLED_STAYS if exchange.call.id in self._origins else 1
        born = self.transcript.calls_before[proposal.position]
        since = born + max(settings.recent_calls, stays)
        self._candidates[proposal.target] = Candidate(proposal, sort, self._paths(exchange), born, since)

    def _proposal(self, strategy: str, exchange: Exchange, kind: ToolKind, reason: str) -> Proposal | None:
        """What takes all of a part out; None where it would get no smaller, or no recall can be promised."""
        call, result = exchange.call, exchange.result
        reference = self.reference_of(exchange)
        if reference is None or self._is_marker(exchange, kind):
            return None
        if kind == TOOL_INPUT:
            marker = markers.purged_input(call.name, utf16_length(call.text), reason, reference)
        else:
            marker = markers.output(
                call.name,
                utf16_length(result.text),
                reason,
                reference,
                images=result.images,
                files=result.files,
            )
        return self._replaced(strategy, exchange, kind, reason, marker, reference)

    def _replaced(  # noqa: PLR0917
        self, strategy: str, exchange: Exchange, kind: ToolKind, reason: str, marker: str, reference: str
    ) -> Proposal | None:
        """A part replaced by a marker; None where it would get no smaller."""
        size = self._size(exchange, kind)
        left = canonical({markers.INPUT_KEY: marker}) if kind == TOOL_INPUT else marker
        removed = size - text_tokens(left)
        if removed <= 0:
            return None
        lane = "free" if strategy in FREE else "paid"
        position, order = exchange.position(kind), exchange.order
        return Proposal(
            strategy, kind, exchange.call.id, position, size, removed, reason, lane, order, marker, reference
        )

    def _size(self, exchange: Exchange, kind: ToolKind) -> int:
        if kind == TOOL_INPUT:
            return text_tokens(exchange.call.text)
        return self.rules.estimator.content(exchange.result)

    def _is_protected(self, exchange: Exchange) -> bool:
        """Whether a protection forbids it; of a shell command the files that it is known to touch count."""
        reason = self._protections.reason
        if reason(exchange) is not None:
            return True
        touched = () if exchange.operation is not None else named_by(exchange, self.transcript)
        return any(reason(msgspec.structs.replace(exchange, operation=one)) is not None for one in touched)

    # ---- the free lane

    def _unsent(self) -> list[Proposal]:
        """What may be done to outputs that have never been sent."""
        made: list[Proposal] = []
        start = max(self.transcript.sent, self.sent)
        for exchange in reversed(self.transcript.exchanges):
            if exchange.result_position < start:
                break
            proposal = self._at_birth(exchange)
            if proposal is not None:
                made.append(proposal)
        return made

    def _at_birth(self, exchange: Exchange) -> Proposal | None:
        """What may be done to an output that has never been sent."""
        result = exchange.result
        if result.has_image or result.files or self._is_recall(exchange) or not self._is_shown(exchange):
            return None
        reference = self.reference_of(exchange)
        if reference is None or self._is_marker(exchange, TOOL_RESULT) or self._is_protected(exchange):
            return None
        if self._views.before(exchange) is not None:
            marker = markers.pointer(exchange.call.name, result.text, reference)
            return self._replaced(REPEAT, exchange, TOOL_RESULT, SAME, marker, reference)
        is_command = exchange.call.name.lower() in self.transcript.vocabulary.shell
        marker = without_noise(exchange, reference) if is_command else None
        return (
            None if marker is None else self._replaced(NOISE, exchange, TOOL_RESULT, NOISY, marker, reference)
        )

    def _is_shown(self, exchange: Exchange) -> bool:
        return not (exchange.reused_id or self._decided((exchange.call.id, TOOL_RESULT)))

    def _holds(self, target: tuple[str, Kind]) -> bool:
        """As the engine's: what a pointer leads to, and what a client's "unchanged" does."""
        if target[1] != TOOL_RESULT:
            return False
        state = (self._ledger, len(self.transcript))
        if self._led_to[0] != state:
            standing = (at for at, one in self._ledger.standing.items() if one.strategy_id == REPEAT)
            self._led_to = (state, self._leant_on | self._sources(standing))
        return target[0] in self._led_to[1]

    def _sources(self, pointers: Iterable[Target]) -> set[str]:
        """The calls whose outputs these pointers lead to."""
        found = (self.transcript.exchange(call_id) for call_id, _ in pointers)
        return self._views.sources(one for one in found if one is not None)

    # ---- the verdict

    def decide(self, moment: Moment = NOW) -> Choice:
        """What goes now: everything free, and the paid cut that the prices speak for. Changes nothing."""
        self._bring_up_to_date(moment)
        free = self._unsent()
        cut, paid = self._cut(moment, free)
        chosen = sorted([*free, *paid], key=lambda one: (one.position, one.order))
        removed = sum(one.tokens_removed for one in chosen)
        verdict = Verdict(
            self.rules.settings.gate.mode,
            bool(chosen),
            self._horizon,
            cut.position if paid else None,
            round(cut.rewritten),
            removed,
            cut.price if paid else 0.0,
            self._prices(moment).rates.read * removed,
            None,
        )
        return Choice(verdict, chosen)

    def verdict(self, moment: Moment = NOW) -> Verdict:
        """As `decide`; what goes is then in `proposals`."""
        self._choice = self.decide(moment)
        return self._choice.verdict

    def accepted(self, verdict: Verdict) -> list[Proposal]:
        """What goes by this verdict, which is the last one given."""
        return self.proposals if verdict.accepted else []

    @property
    def has_proposals(self) -> bool:
        """Whether anything was chosen."""
        return bool(self.proposals)

    @property
    def proposals(self) -> list[Proposal]:
        """What was chosen."""
        return [] if self._choice is None else self._choice.proposals

    @property
    def _horizon(self) -> float:
        """For how many LLM calls a cut is expected to serve."""
        return expected_calls(self.rules.settings.priced.survival, self.transcript.llm_calls)

    def _request_tokens(self) -> float:
        """The size of the request, in estimated tokens."""
        return max(self.context.estimate, self.context.raw)

    def _sent_tokens(self) -> tuple[float, float]:
        """The size of the request as it goes out, at the least and at the most. The usage by which it is
        estimated may be that of requests with what has gone, or without.
        """
        gone = self.removed_tokens
        return self._request_tokens() - gone, max(self.context.estimate, self.context.raw - gone)

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

    def _cut(self, moment: Moment, free: Sequence[Proposal]) -> tuple[Cut, list[Proposal]]:
        """Where to cut, and what goes by that."""
        prices, call = self._prices(moment), self.transcript.llm_calls
        floor, seen = self.covered(moment), self.transcript.seen
        taken = {one.target for one in free}
        led_to = self._sources(one.target for one in free if one.strategy == REPEAT)
        ripe = [
            one
            for target, one in self._candidates.items()
            if one.since <= call
            and floor <= one.position < seen
            and target not in taken
            and not self._decided(target)
            and not self._holds(target)
            and not (target[1] == TOOL_RESULT and target[0] in led_to)
        ]
        if not ripe:
            return Cut(), []
        ripe.sort(key=lambda one: one.position, reverse=True)
        settings = self.rules.settings
        if settings.gate.mode != "on":
            return Cut(ripe[-1].position), [one.proposal for one in ripe]
        rates = prices.at(self._sent_tokens()[0])
        outlook = self._outlook(moment, prices, rates, floor)
        pieces = [self._piece(one, rates) for one in ripe]
        rewritten = cache(self._rewritten(prices))
        cut = self.rules.choose(pieces, outlook, rewritten)
        return cut, [ripe[at].proposal for at in cut.taken]

    def _outlook(self, moment: Moment, prices: Prices, rates: Rates, floor: int) -> Outlook:
        call, context, settings = (
            self.transcript.llm_calls,
            self._request_tokens(),
            self.rules.settings.priced,
        )
        account, horizon = self._account, self._horizon
        mean, variance = account.at_stake(
            rates, context, call, horizon, lambda one: self._needs.factor(one.sort, one.paths)
        )
        patience, limit = settings.patience, math.inf
        if account.stayed(call) < _PROOF * (1 + account.recalls):  # a small cut shows whether it recalls
            patience = 0.0
            foreseen = account.spent + (0 if account.recalls else horizon * rates.read * context)
            limit = settings.stake * foreseen / max(1.0, self._needs.level) + min(0.0, account.gained)
            limit -= account.exposed(rates, context, call, horizon)
        least, most = self._sent_tokens()
        return Outlook(
            rates.read,
            rates.write,
            self._warm(moment),
            call,
            horizon,
            patience,
            floor,
            account.gained + settings.stake * account.spent - mean,
            variance,
            _DOUBT,
            limit,
            SOON,
            _cheaper(prices, least),
            least,
            most,
            self.context.raw / max(1, call),
        )

    def _piece(self, one: Candidate, rates: Rates) -> Piece:
        """A candidate as the gate sees it."""
        age = self.transcript.llm_calls - one.born
        odds = HAZARDS[one.sort].times(self._needs.factor(one.sort, one.paths)).at(age)
        size, removed = one.proposal.original_tokens, one.proposal.tokens_removed
        price = recall_price(rates, self._request_tokens(), size, self._horizon)
        return Piece(one.position, removed, one.since, odds, price)

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

    # ---- the account

    def _bring_up_to_date(self, moment: Moment) -> None:
        """Take into the account what has been answered since it was last looked at."""
        account = self._account
        prices = self._prices(moment)
        for answer in self._answers[self._accounted :]:
            request, usage = answer.request, answer.message.usage
            rates = prices.at(request.context)
            for exchange in self.recalls:
                decision = self._origins.get(exchange.call.id)
                if decision is not None and request.sent <= exchange.result_position < request.end:
                    size = self.rules.estimator.content(exchange.result)
                    account.recalled(decision.target, size, rates, request.context)
            warm = 0.0
            if self._accounted:
                long = self._long_lived or moment.long_lived
                warm = self.warmth.probability(request.pause, prices.rules, long=long)
            broke = account.answered(request, rates, warm, self._due(answer), self._between)
            before = answer.before
            if usage is not None and before is not None and before.usage and request.pause is not None:
                sent = before.usage.context_tokens - before.usage.output
                if sent > 0 and not broke:
                    self.warmth = self.warmth.after(request.pause, hit=usage.cache_read >= _FOUND * sent)
            self._accounted += 1
        self._needs.against(account.expected(self.transcript.llm_calls))

    def _between(self, start: int, end: int) -> float:
        return self._totals[end] - self._totals[start]

    def _due(self, answer: _Answer) -> list[Taken]:
        """What was out of this answer's request for the first time."""
        number, answered_at = self._accounted, answer.message.time
        due: list[Taken] = []
        waiting: list[tuple[Decision, int]] = []
        for decision, seen in self._fresh:
            decided_at = decision.decided_at
            last = self._positions.get(decision.request_id or "")
            if last is not None:
                is_due = last < answer.request.end
            elif answered_at is None or decided_at is None:
                is_due = seen <= number
            else:
                is_due = decided_at <= answered_at + _SAME_INSTANT
            if not is_due:
                waiting.append((decision, seen))
            elif (taken := self._taken(decision, number)) is not None:
                due.append(taken)
        self._fresh = waiting
        return due

    def _taken(self, decision: Decision, call: int) -> Taken | None:
        exchange, kind = self.transcript.exchange(decision.target[0]), decision.kind
        if exchange is None or self._ledger.standing.get(decision.target) != decision:
            return None
        position = exchange.position(kind)
        born = self.transcript.calls_before[position]
        sort = ERRORS if kind == TOOL_INPUT else self._sort(exchange)
        sort = decision.strategy_id if decision.strategy_id in HAZARDS else sort
        return Taken(
            decision.target,
            position,
            born,
            max(born, call),
            self.saving_at(place_of(exchange, kind)),
            self._size(exchange, kind),
            None if decision.strategy_id in FREE else HAZARDS[sort],
            sort,
            self._paths(exchange),
        )

    def _stand(self, exchange: Exchange, decision: Decision) -> None:
        super()._stand(exchange, decision)
        self._fresh.append((decision, self.transcript.llm_calls))

    def _fall(self, target: Target) -> None:
        super()._fall(target)
        self._account.restored(target)


def _cheaper(prices: Prices, tokens: float) -> tuple[Cheaper, ...]:
    """The price tiers below that of a request with so many tokens."""
    limits = [tier.above for tier in prices.tiers if tier.above < tokens]
    return tuple(Cheaper(limit, prices.at(limit).read, prices.at(limit).write) for limit in limits)
