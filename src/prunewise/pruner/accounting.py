"""Keeps the tally of one conversation: which requests went out through the pruner, and what answered them.

What a conversation held before it came here is counted too, by what the ledger says: which decisions
stood when. What was masked then is left out. When pruning was switched off is in no ledger: a decision counts
as if it had been on ever since.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable
from itertools import accumulate, islice

import msgspec

from prunewise.cache import UNTOLD, Warmth
from prunewise.engine import Engine, Rules, place_of
from prunewise.ledger import Decision, Ledger
from prunewise.prices import UNKNOWN, Prices, assumed_prices, prices_for, rules_for
from prunewise.tally import Account, Balance, Tally
from prunewise.tokens import text_tokens
from prunewise.transcript import Message, ToolCall, Transcript, Usage

_FOUND = 0.5
"""Of what the request before held, the share from which on a cache counts as found."""
_ENOUGH = 100
"""So many answers tell how the provider counts."""
_SAME_INSTANT = 0.002
"""Seconds by which a decision may be dated behind the answer to its request."""


class _Event(msgspec.Struct, frozen=True, order=True):
    """A decision of before: from a request on so much is out of a message, in all."""

    answer: int
    """The position of the first answer to a request that it counts in."""
    position: int
    removed: float


class Accounting:
    """The tally of one conversation, and what has to be known to keep it."""

    def __init__(self, rules: Rules) -> None:
        self.tally = Tally()
        self._limit: int | None = None
        """The size from which on the host compacts, in tokens, where it is known."""
        self._account = Account()
        self._earlier: Account | None = None
        self._rules = rules
        self._begun = False
        self.sent_whole: set[str] = set()
        """Requests that went out without any edit, by the ids of their last messages."""
        self._expected: int | None = None
        """The messages of the request that went out last, until it is answered."""
        self._last: Message | None = None
        """The last answer that the provider counted."""
        self._warmth: Warmth = UNTOLD
        self._cached = False
        """Whether the provider has told of a cache."""
        self._long_lived = False
        """Whether what was written last is to live one hour."""
        self._book: dict[str, Prices] = {}

    @property
    def balance(self) -> Balance:
        """What the LLM calls since this one came to be amount to."""
        return self._account.balance(self.prices)

    @property
    def earlier(self) -> Balance | None:
        """What the ledger says of those before; None where it says nothing."""
        if self._earlier is None:
            return None
        add_up = self._earlier.so_far if self._limit is None else self._earlier.balance
        return add_up(self.prices)

    def under(self, rules: Rules) -> Accounting:
        """This, gone on with under other rules."""
        self._rules, self._book = rules, {}
        return self

    # ---- what the host sends

    def compacts_from(self, limit: int) -> None:
        """The host compacts from so many tokens on."""
        if self._limit is None and self._earlier is not None:
            self._earlier.limit(limit)
        self._limit = limit

    def read(self, engine: Engine, ledger: Ledger) -> None:
        """Take in the messages that the engine has and this has not."""
        self.sent_whole |= ledger.sent_whole
        tally, transcript = self.tally, engine.transcript
        start = len(tally)
        if start == len(transcript):
            return
        tally.extend(engine.raw_sizes(start))
        self._note_recalls(engine, start)
        if self._begun:
            for position in range(start, len(transcript)):
                self._answer(transcript, position)
            return
        self._begun = True
        answers = _answers(transcript)
        events = _decided(engine, ledger, answers)
        if events:
            self._repeat(transcript, answers, events)
            self._earlier, self._account = self._account, Account()
        else:
            self._learn(transcript, answers)

    def take_back(self) -> None:
        """The request that was projected last has not gone out."""
        self._expected = None

    def cut(self, kept: int) -> None:
        """Only the first `kept` messages are as they were."""
        self.tally.cut(kept)
        self._expected = None

    def sent(self, engine: Engine, touched: Iterable[int]) -> None:
        """The engine's messages go out; at these positions, in order, something may have changed."""
        for position in touched:
            parts = engine.edits.get(position, {})
            self.tally.remove(position, sum(engine.saving_at((position, part)) for part in parts))
        self._send(len(engine.transcript))

    def prices(self, model: str) -> Prices:
        """What a model costs."""
        found = self._book.get(model)
        if found is None:
            ask = getattr(self._rules.prices, "prices_for", None)
            found = self._book[model] = ask(model) if ask else prices_for(model) or assumed_prices(model)
        return found

    # ---- what was sent before

    def _repeat(self, transcript: Transcript, answers: list[int], events: list[_Event]) -> None:
        """The requests of before, each as it went out by what had been decided until then."""
        decided = 0
        for position in answers:
            while decided < len(events) and events[decided].answer <= position:
                self.tally.remove(events[decided].position, events[decided].removed)
                decided += 1
            self._send(position)
            self._answer(transcript, position)
            if self._was_whole(transcript, position):
                decided = 0

    def _learn(self, transcript: Transcript, answers: list[int]) -> None:
        """Where nothing was decided, the last ones tell how the provider counts."""
        for position in answers[-_ENOUGH:]:
            self._last = message = transcript.messages[position]
            assert message.usage is not None
            self._send(position)
            self.tally.learn(message.usage)
        self._expected = None

    def _send(self, messages: int) -> None:
        self._expected = messages
        self.tally.request(messages)

    # ---- what came back

    def _answer(self, transcript: Transcript, position: int) -> None:
        """Take in a message, if it is an answer."""
        message = transcript.messages[position]
        usage = message.usage
        if message.role != "assistant" or usage is None:
            return
        last, self._last = self._last, message
        if self._was_whole(transcript, position):
            self.tally.put_back()
            self._send(position)
        expected, self._expected = self._expected, None
        if position != expected:
            self.tally.unknown(position)
            return
        if last is not None and last.model != message.model:
            self.tally.other_model()
        warm = self._warm(last, message, usage)
        call = self.tally.answer(usage, warm=warm, recalls_only=_recalls_only(message, transcript))
        if call is None:
            return
        if call.fits(self._limit):
            self._account.add(call, message.model)
        else:
            self._account.add_past_window()

    def _was_whole(self, transcript: Transcript, position: int) -> bool:
        """Whether the request that the message at this position answers went out without any edit."""
        return position > 0 and transcript.messages[position - 1].id in self.sent_whole

    def _warm(self, last: Message | None, message: Message, usage: Usage) -> float:
        """How likely the cache was still warm, to go by the pause; what usage says of it is learnt."""
        self._cached = self._cached or usage.cache_read + usage.cache_write > 0
        if last is not None and last.usage is not None and last.usage.cache_write:
            self._long_lived = last.usage.is_long_lived
        if not self._cached or last is None or last.usage is None or last.model != message.model:
            return 0.0
        pause = message.pause_after(last)
        rules = rules_for(message.model) or UNKNOWN
        likely = self._warmth.probability(pause, rules, long=self._long_lived)
        if pause is not None and not self.tally.broken:
            sent = last.usage.context_tokens - last.usage.output
            self._warmth = self._warmth.after(pause, hit=usage.cache_read >= _FOUND * sent)
        return likely

    def _note_recalls(self, engine: Engine, start: int) -> None:
        """The recalls whose results are new: calls and results are there for nothing but what was pruned."""
        transcript = engine.transcript
        first = bisect_left(transcript.exchanges, start, key=lambda one: one.result_position)
        whole: set[int] = set()
        for exchange in islice(transcript.exchanges, first, None):
            call, asked = exchange.call, exchange.call_position
            if call.name.lower() not in transcript.vocabulary.recall or "ref" not in call.arguments:
                continue
            if not _recalls_only(transcript.messages[asked], transcript):
                self.tally.recalled(asked, text_tokens(call.text))
            elif asked not in whole:
                whole.add(asked)
                self.tally.recalled(asked, self._rules.estimator.message(transcript.messages[asked]))
            self.tally.recalled(exchange.result_position, self._rules.estimator.content(exchange.result))
            self._account.add_recall()


def _answers(transcript: Transcript) -> list[int]:
    """The positions of the answers with usage. Those that are older than a summary before them are left out:
    the host has kept them behind it, and they answered something else.
    """
    found: list[int] = []
    latest = 0.0
    for position, message in enumerate(transcript.messages):
        if message.role == "other":
            latest = max(latest, message.time or 0.0)
        elif message.usage is not None and (message.time or 0.0) >= latest:
            found.append(position)
    return found


def _recalls_only(message: Message, transcript: Transcript) -> bool:
    """Whether an answer asks for recalls and for nothing else."""
    calls = [part.name.lower() for part in message.parts if type(part) is ToolCall]
    return bool(calls) and transcript.vocabulary.recall.issuperset(calls)


def _decided(engine: Engine, ledger: Ledger, answers: list[int]) -> list[_Event]:
    """What stands or stood, in the order in which it went out: a decision by the request that it was made
    for, where the messages hold that; else by the time, as a restore. `answers` are the positions of the
    answers with usage.
    """
    spans = [*((one, None) for one in ledger.standing.values()), *ledger.undone]
    if not spans:
        return []
    transcript = engine.transcript
    at = {message.id: position for position, message in enumerate(transcript.messages)}
    latest = list(accumulate((transcript.messages[one].time or 0.0 for one in answers), max))

    def answer_after(time: float) -> int:
        first = bisect_left(latest, time - _SAME_INSTANT)
        return answers[first] if first < len(answers) else len(transcript)

    def began(decision: Decision, made: int) -> int | None:
        decided_at = decision.decided_at
        if decided_at is None or decided_at < (transcript.messages[made].time or 0.0):
            return None  # one of the two clocks was wrong
        asked = at.get(decision.request_id or "", -1)
        return asked + 1 if asked >= made else answer_after(decided_at)

    sizes = {one.idempotency_key: one.tokens_removed for one in ledger.savings}
    found: list[tuple[int, int, int]] = []
    for decision, restore in spans:
        call, kind = decision.target
        exchange = transcript.exchange(call)
        if exchange is None:
            continue
        if restore is None:
            end = len(transcript) + 1  # behind every answer
            removed = engine.saving_at(place_of(exchange, kind))
        elif restore.restored_at is None:
            continue
        else:
            end = answer_after(restore.restored_at)
            removed = sizes.get(decision.idempotency_key, 0)
        begin = began(decision, exchange.result_position)
        if begin is None or begin >= end or not removed:
            continue
        position = exchange.position(kind)
        found += (begin, position, removed), (end, position, -removed)
    return _events(found)


def _events(changes: Iterable[tuple[int, int, int]]) -> list[_Event]:
    """The events of these changes: each an answer, a position and by how much more is out there."""
    events: list[_Event] = []
    so_far: Counter[int] = Counter()
    for answer, position, removed in sorted(changes):
        so_far[position] += removed
        events.append(_Event(answer, position, so_far[position]))
    return events
