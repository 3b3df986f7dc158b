"""What pruning has really brought in one conversation, LLM call by LLM call: a running account.

A request that was answered is billed twice: as the provider counted it, and as it would have been had
nothing been pruned. What was taken out would have been read from the cache where the request before held
it, and written where it is new. A cache break shows as tokens that were written and would have been read; a
recall as a call, and as tokens, that would not have been. Costs are in base input tokens (the price of
one uncached input token is 1). Knows sizes, usage and prices; no message, no clock.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable
from itertools import accumulate

import msgspec

from prunewise.prices import Prices, Rates
from prunewise.transcript import Usage


class Balance(msgspec.Struct, frozen=True):
    """Sums over LLM calls, in base input tokens; of the output only what recalls cost is in them."""

    calls: int = 0
    """LLM calls that are counted: it is known what went out, and the provider said what it counted."""
    cost: float = 0.0
    """What their input has cost."""
    without: float = 0.0
    """What it would have cost without pruning."""
    breaks: int = 0
    """Calls before which something had changed that had been sent before."""
    break_cost: float = 0.0
    recalls: int = 0
    recall_cost: float = 0.0
    dollars: float = 0.0
    """What was saved in US dollars, over the calls whose price is known."""
    priced_calls: int = 0
    """The number of these."""
    past_window: int = 0
    """Answered calls that are not counted, since without pruning their requests would not have fitted into
    the window: the host would have compacted before, and nobody knows what would have followed."""

    @property
    def net(self) -> float:
        """What was saved, less what breaks and recalls have cost; negative where pruning lost."""
        return self.without - self.cost

    @property
    def gross(self) -> float:
        """What was saved before breaks and recalls."""
        return self.net + self.break_cost + self.recall_cost

    @property
    def share(self) -> float:
        """What was saved as a part of the cost without pruning."""
        return self.net / self.without if self.without else 0.0

    @property
    def net_dollars(self) -> float | None:
        """What was saved in US dollars; None unless the price of every call is known."""
        return self.dollars if self.calls and self.priced_calls == self.calls else None

    def plus(self, other: Balance) -> Balance:
        """Both together."""
        return Balance(
            self.calls + other.calls,
            self.cost + other.cost,
            self.without + other.without,
            self.breaks + other.breaks,
            self.break_cost + other.break_cost,
            self.recalls + other.recalls,
            self.recall_cost + other.recall_cost,
            self.dollars + other.dollars,
            self.priced_calls + other.priced_calls,
            self.past_window + other.past_window,
        )


class Call(msgspec.Struct, frozen=True, gc=False):
    """One LLM call in tokens, as it was counted and as it would have been: all that its price depends on."""

    usage: Usage
    read: float
    """What would have been read from the cache without pruning."""
    whole: float
    """The input that there would have been."""
    broken: bool = False
    missed: float = 0.0
    """What a cache break kept from being read."""
    held_read: float = 0.0
    """What is in the request only because it was recalled, and would be read; what would not."""
    held_new: float = 0.0
    recalls_only: bool = False
    """Whether the model asked for nothing but what was pruned: without pruning there is no such call."""

    def fits(self, limit: float | None) -> bool:
        """Whether it would have gone out without pruning, where the host compacts from `limit` tokens on."""
        return limit is None or self.whole <= max(limit, _tokens(self.usage))

    def bill(self, prices: Prices) -> Balance:
        """What the call comes to."""
        usage = self.usage
        rates, raw = prices.at(_tokens(usage)), prices.at(self.whole)
        beyond = _beyond(usage, rates) * raw.input / rates.input
        cost = _cost(usage, rates)
        without = self.read * raw.read + max(0.0, self.whole - self.read) * beyond
        broken = self.missed * (beyond - raw.read)
        recalled = self.held_read * raw.read + self.held_new * beyond
        if self.recalls_only:
            cost, without = cost + usage.output * rates.output, 0.0
            recalled = cost - broken
        saved = prices.dollars(without - cost)
        return Balance(
            1, cost, without, int(self.broken), broken, 0, recalled, saved or 0.0, int(saved is not None)
        )


class Account:
    """Calls and recalls, added up. Prices are looked up when somebody asks: that may be never."""

    def __init__(self) -> None:
        self._balance = Balance()
        self._waiting: list[tuple[Call, str]] = []

    def add(self, call: Call, model: str) -> None:
        """One more call, which this model answered."""
        self._waiting.append((call, model))

    def add_past_window(self, calls: int = 1) -> None:
        """More calls, to whose requests without pruning there is nothing to compare."""
        past = self._balance.past_window + calls
        self._balance = msgspec.structs.replace(self._balance, past_window=past)

    def add_recall(self) -> None:
        """The model asked for something that was pruned."""
        self._balance = msgspec.structs.replace(self._balance, recalls=self._balance.recalls + 1)

    def limit(self, tokens: int) -> None:
        """The host compacts from so many tokens on: take out the calls that would not have fitted. Those
        that `balance` has added up stay.
        """
        fitting = [one for one in self._waiting if one[0].fits(tokens)]
        self.add_past_window(len(self._waiting) - len(fitting))
        self._waiting = fitting

    def so_far(self, prices: Callable[[str], Prices]) -> Balance:
        """What it comes to, as long as `limit` may still follow; `prices` gives a model's."""
        balance = self._balance
        for call, model in self._waiting:
            balance = balance.plus(call.bill(prices(model)))
        return balance

    def balance(self, prices: Callable[[str], Prices]) -> Balance:
        """What it comes to; `prices` gives a model's."""
        self._balance, self._waiting = self.so_far(prices), []
        return self._balance


class _Scale(msgspec.Struct):
    """How the provider counts: what one call has more than the one before, as so many tokens for each
    estimated token and so many for each message; by least squares.
    """

    xx: float = 0.0
    xn: float = 0.0
    nn: float = 0.0
    xy: float = 0.0
    ny: float = 0.0

    def add(self, estimated: float, messages: int, counted: float) -> None:
        """One call has so much more than the one before."""
        self.xx += estimated * estimated
        self.xn += estimated * messages
        self.nn += messages * messages
        self.xy += estimated * counted
        self.ny += messages * counted

    def fit(self) -> tuple[float, float]:
        """The provider's tokens for one estimated token, and for a message; 1 and 0 where nothing tells."""
        spread = self.xx * self.nn - self.xn * self.xn
        if spread > _LEAST_SPREAD * self.xx * self.nn:
            scale = (self.xy * self.nn - self.ny * self.xn) / spread
            each = (self.ny * self.xx - self.xy * self.xn) / spread
            if _LEAST_SCALE <= scale <= _MOST_SCALE and 0 <= each <= _MOST_EACH:
                return scale, each
        scale = self.xy / self.xx if self.xx > 0 else 1.0
        return (scale if _LEAST_SCALE <= scale <= _MOST_SCALE else 1.0), 0.0


_LEAST_SCALE, _MOST_SCALE, _MOST_EACH = 0.25, 4.0, 100.0
_LEAST_SPREAD = 0.01
"""Where sizes and numbers of messages are nearer than this to a proportion, they are not told apart."""
_NEAR = 0.02
"""A cache that holds all of the last request but this share of it holds all of it: some grow in steps."""

_STEP = 256
"""And so do some that grow in larger steps, in tokens: two of the largest."""


class _Sums:
    """Figures at positions, and their sums before a position."""

    def __init__(self) -> None:
        self._at: dict[int, float] = {}
        self._positions: list[int] = []
        self._sums: list[float] = [0.0]
        self._in_order = True

    def get(self, position: int) -> float:
        return self._at.get(position, 0.0)

    def positions(self) -> list[int]:
        return [position for position, value in self._at.items() if value]

    def put(self, position: int, value: float) -> None:
        if self._in_order and (not self._positions or position > self._positions[-1]):
            self._positions.append(position)
            self._sums.append(self._sums[-1] + value)
        else:
            self._in_order = False
        self._at[position] = value

    def cut(self, kept: int) -> None:
        self._at = {position: value for position, value in self._at.items() if position < kept}
        self._in_order = False

    def before(self, position: int) -> float:
        if not self._in_order:
            self._in_order = True
            self._positions = sorted(self._at)
            self._sums = list(accumulate((self._at[one] for one in self._positions), initial=0.0))
        return self._sums[bisect_left(self._positions, position)]


class Tally:
    """The account of one conversation, kept as it grows. Sizes are estimated tokens; usage scales them."""

    def __init__(self) -> None:
        self._ends: list[float] = [0.0]
        self._removed = _Sums()
        self._recalled = _Sums()
        self._scale = _Scale()
        self._prefix = self._each = 0.0
        self._counted: float | None = None
        """The size of the last answered request, as the provider counted it."""
        self._estimated = 0.0
        """The same, as it was estimated."""
        self._answered = 0
        """The messages in it."""
        self._would_be = 0
        """The messages in the last one that would have gone out without pruning."""
        self._before: dict[int, float] = {}
        """What was out of messages in it that have changed since, by position."""
        self._sent: int | None = None

    def __len__(self) -> int:
        return len(self._ends) - 1

    # ---- the conversation

    def extend(self, sizes: Iterable[float]) -> None:
        """More messages, of these sizes without any pruning."""
        self._ends.extend(list(accumulate(sizes, initial=self._ends[-1]))[1:])

    def cut(self, kept: int) -> None:
        """Only the first `kept` messages are as they were, at the host's will."""
        del self._ends[kept + 1 :]
        self._removed.cut(kept)
        self._recalled.cut(kept)
        if self._answered > kept:
            self._answered, self._counted = kept, None
        self._would_be = min(self._would_be, kept)
        self._before = {position: tokens for position, tokens in self._before.items() if position < kept}
        self._sent = None

    def remove(self, position: int, tokens: float) -> None:
        """A message goes out smaller by so many tokens from now on, in all."""
        before = self._removed.get(position)
        if tokens == before:
            return
        self._removed.put(position, tokens)
        if position < self._answered and self._before.setdefault(position, before) == tokens:
            del self._before[position]

    def put_back(self) -> None:
        """Every message goes out in full from now on."""
        for position in self._removed.positions():
            self.remove(position, 0.0)

    def recalled(self, position: int, tokens: float) -> None:
        """So many tokens of a message are there only because something was pruned and recalled."""
        self._recalled.put(position, self._recalled.get(position) + tokens)

    @property
    def broken(self) -> bool:
        """Whether something that was sent before has changed since."""
        return bool(self._before)

    @property
    def _changed(self) -> int | None:
        """The first message that has changed since the last request was answered, of those in it."""
        return min(self._before, default=None)

    # ---- requests

    def request(self, messages: int) -> None:
        """The first so many messages go out as a request."""
        self._sent = messages

    def unknown(self, messages: int) -> None:
        """The first so many messages went out, nobody knows in which shape: nothing is counted."""
        self._answered = self._would_be = messages
        self._counted = self._sent = None
        self._before = {}

    def other_model(self) -> None:
        """Another model counts tokens in its own way."""
        self._scale = _Scale()
        self._counted = None

    def answer(self, usage: Usage, *, warm: float = 1.0, recalls_only: bool = False) -> Call | None:
        """The request that went out last was answered: the call; None where nothing is known of it.

        Args:
            usage: what the provider counted.
            warm: how likely what the request before left was still cached. It counts only where a break
                hides whether it was.
            recalls_only: whether the model asked for nothing but what was pruned.
        """
        messages = self._taken(usage)
        if messages is None:
            return None
        call = self._call(usage, messages, self._measured(messages, usage), warm, recalls_only=recalls_only)
        if not recalls_only:
            self._would_be = messages
        self._settle(messages, usage)
        return call

    def learn(self, usage: Usage) -> None:
        """The same, only to know how the provider counts: nothing had been pruned."""
        messages = self._taken(usage)
        if messages is not None:
            self._measured(messages, usage)
            self._would_be = messages
            self._settle(messages, usage)

    def _taken(self, usage: Usage) -> int | None:
        """The messages of the request that was answered; None where there is none, or no count of it."""
        messages, self._sent = self._sent, None
        return messages if _tokens(usage) else None

    def _measured(self, messages: int, usage: Usage) -> float:
        """The provider's tokens for one estimated token, after one more call."""
        estimated, tokens = self._as_sent(messages), _tokens(usage)
        if self._counted is not None:
            self._scale.add(estimated - self._estimated, messages - self._answered, tokens - self._counted)
        scale, self._each = self._scale.fit()
        self._prefix = max(0.0, tokens - scale * estimated - self._each * messages)
        return scale

    def _settle(self, messages: int, usage: Usage) -> None:
        self._answered, self._counted, self._before = messages, _tokens(usage), {}
        self._estimated = self._as_sent(messages)

    def _call(self, usage: Usage, messages: int, scale: float, warm: float, *, recalls_only: bool) -> Call:
        tokens = _tokens(usage)
        found = self._found(usage.cache_read, scale)
        broken = self.broken
        place = max(found, self._would_be) if broken else min(found, self._would_be)
        missed = 0.0  # what would have been read beyond what was; negative after a call that would not be
        if place != found:
            new = scale * (self._as_sent(messages) - self._as_sent(place)) + self._each * (messages - place)
            missed = (warm if broken else 1.0) * (tokens - new - usage.cache_read)
        back, held = self._removed.before(place), self._recalled.before(place)
        if broken:
            back = warm * back + (1 - warm) * self._removed.before(found)
            held = warm * held + (1 - warm) * self._recalled.before(found)
        recalled = self._recalled.before(messages)
        return Call(
            usage,
            usage.cache_read + missed + scale * (back - held),
            tokens + scale * (self._removed.before(messages) - recalled),
            broken,
            missed if broken else 0.0,
            scale * held,
            scale * (recalled - held),
            recalls_only,
        )

    def _found(self, read: int, scale: float) -> int:
        """How many messages of the last request the cache held, as they go out now."""
        changed = self._changed
        whole = None if changed is not None else self._counted
        if whole is not None and read >= whole - max(_NEAR * whole, _STEP):
            return self._answered

        def counted(messages: int) -> float:
            return self._prefix + scale * self._as_sent(messages) + self._each * messages

        most = self._answered if changed is None else changed
        return max(0, bisect_right(range(most + 1), read, key=counted) - 1)

    def _as_sent(self, messages: int) -> float:
        """The size of so many first messages as they go out."""
        return self._ends[messages] - self._removed.before(messages)


def _tokens(usage: Usage) -> int:
    return usage.input + usage.cache_read + usage.cache_write


def _cost(usage: Usage, rates: Rates) -> float:
    long = min(usage.cache_write_1h, usage.cache_write)
    return (
        usage.input * rates.input
        + usage.cache_read * rates.read
        + (usage.cache_write - long) * rates.write
        + long * rates.write_1h
    )


def _beyond(usage: Usage, rates: Rates) -> float:
    """What a token cost that was not read: some are written, some are not."""
    tokens = usage.input + usage.cache_write
    return (_cost(usage, rates) - usage.cache_read * rates.read) / tokens if tokens else rates.write
