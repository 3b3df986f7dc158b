"""The exact bill of a recorded session: what its input cost, and what it would have cost under cuts.

Works on sizes and calls alone; which messages they belong to, and why something was cut, it does not
know. Costs are in base input tokens (the price of one uncached input token is 1) and, where prices
are known, in US dollars. docs/explanation/cost-model.md has the formulas and every assumption.

A request is a row of items: item 0 is the fixed prefix (system prompt and tools), item i + 1 is message i.
What was cached is a place in that row, with a fraction inside an item; so it can be carried over to
a policy under which items are smaller.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Literal, Protocol

import msgspec
import numpy as np
import numpy.typing as npt

from prunewise.prices import CacheRules, Prices, assumed_prices, at_speed, prices_for
from prunewise.recording import LLMCall, Recording
from prunewise.tokens import PI, Estimator
from prunewise.transcript import Message, ToolCall, ToolResult, Usage

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.intp]
Warmth = Literal["recorded", "time to live"]
"""What decided how much of a session's requests was cached."""

ASSUMED_PREFIX = 10_000
"""Tokens of system prompt and tools where no usage tells: midway of six coding agents (2,200 to 40,400)."""
EXCLUDED_ABOVE = 0.25
"""A session whose simulated baseline is off by more than this share is left out of totals."""
RECALL_OUTPUT = 150
"""Tokens that a model writes to ask for one recall."""


class Cut(Protocol):
    """What a policy takes out: a message is smaller by `removed` estimated tokens from one call on.

    Several cuts of one message add up.
    """

    @property
    def call(self) -> int:
        """The first LLM call of the stretch whose request is without it, counted from 0."""
        ...

    @property
    def position(self) -> int:
        """The message, counted from 0."""
        ...

    @property
    def removed(self) -> float:
        """Estimated tokens."""
        ...


class Removal(msgspec.Struct, frozen=True):
    """A cut as a plain value."""

    call: int
    position: int
    removed: float


class Stretch(msgspec.Struct, frozen=True):
    """One epoch as sizes: messages were only added."""

    sizes: Sequence[float]
    """Of each message, in estimated tokens."""
    calls: Sequence[LLMCall]
    places: Sequence[int] = ()
    """Of each message how many positions it counts in a provider's lookback; empty: one each."""
    shared: int = 0
    """How many first messages it has in common with the epoch before (after a rewind)."""


def stretches(recording: Recording, estimator: Estimator = PI) -> list[Stretch]:
    """The epochs of a recording as sizes."""
    found: list[Stretch] = []
    before: Sequence[Message] = ()
    for epoch in recording.epochs:
        found.append(
            Stretch(
                [estimator.message(message) for message in epoch.messages],
                epoch.calls,
                [places(message) for message in epoch.messages],
                _shared(before, epoch.messages),
            )
        )
        before = epoch.messages
    return found


def places(message: Message) -> int:
    """How many positions a message counts in Anthropic's lookback: a run of calls, or of results, is one."""
    count, last = 0, None
    for part in message.parts:
        kind = type(part)
        if kind is not last or kind not in (ToolCall, ToolResult):
            count += 1
        last = kind
    return count


def _shared(before: Sequence[Message], after: Sequence[Message]) -> int:
    count = 0
    for old, new in zip(before, after, strict=False):
        if old is not new and (old.id != new.id or old.parts != new.parts):
            break
        count += 1
    return count


# ---------------------------------------------------------------- calibration


class Calibration(msgspec.Struct, frozen=True):
    """How a session's estimated sizes turn into the provider's tokens."""

    scale: float
    """Tokens per estimated token."""
    prefix: float
    """The fixed prefix: system prompt and tools, in tokens."""
    pairs: int = 0
    """How many pairs of calls the scale was taken from; 0 where it is assumed."""
    measured: bool = False
    """Whether the prefix was taken from usage."""


def calibrate(found: Sequence[Stretch], assumed_prefix: float = ASSUMED_PREFIX) -> Calibration:
    """Fit estimated sizes to recorded usage.

    The scale is the median of the slopes between all pairs of calls of one epoch, each weighed with
    the estimated tokens between them (Theil and Sen): one odd call in three does not move it. The
    fixed prefix is what the first counted call holds beyond its messages.
    """
    slopes: list[Floats] = []
    weights: list[Floats] = []
    for stretch in found:
        known = [call for call in stretch.calls if counted(call)]
        ends = np.concatenate(([0.0], np.cumsum(np.asarray(stretch.sizes, dtype=np.float64))))
        known = known[:: max(1, len(known) // 150)]
        estimated = ends[[call.position for call in known]]
        tokens = np.array([input_tokens(call.usage) for call in known], dtype=np.float64)
        across = estimated[None, :] - estimated[:, None]
        upper = np.triu(across, 1) > 0
        slopes.append(((tokens[None, :] - tokens[:, None])[upper]) / across[upper])
        weights.append(across[upper])
    slope, weight = np.concatenate(slopes or [np.empty(0)]), np.concatenate(weights or [np.empty(0)])
    scale = float(np.clip(_weighted_median(slope, weight), 0.25, 4.0)) if len(slope) else 1.0
    for stretch in found:
        for call in stretch.calls:
            if counted(call):
                messages = scale * float(np.sum(np.asarray(stretch.sizes[: call.position], dtype=np.float64)))
                return Calibration(scale, max(0.0, input_tokens(call.usage) - messages), len(slope), True)
    return Calibration(scale, assumed_prefix)


def _weighted_median(values: Floats, weights: Floats) -> float:
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(reached, reached[-1] / 2)])


def counted(call: LLMCall) -> bool:
    """Whether the provider's count of this call's input is known."""
    return not call.failed and call.usage is not None and input_tokens(call.usage) > 0


def input_tokens(usage: Usage | None) -> int:
    """The whole input that was counted."""
    return 0 if usage is None else usage.input + usage.cache_read + usage.cache_write


# ---------------------------------------------------------------- accounts


class Book(Protocol):
    """Where prices come from: `prunewise.prices.PriceBook`, or `DEFAULT_PRICES`."""

    def prices_for(self, model: str, provider: str = "", when: float | None = None) -> Prices:
        """What a model costs."""
        ...


class _Default:
    def prices_for(self, model: str, provider: str = "", when: float | None = None) -> Prices:
        return prices_for(model, provider, when) or assumed_prices(model)


DEFAULT_PRICES: Book = _Default()
"""The price list and the table of cache rules; what neither knows is assumed."""


class Page(msgspec.Struct, frozen=True):
    """One epoch, ready to be billed. Arrays are by call unless they say otherwise."""

    calls: Sequence[LLMCall]
    billed: npt.NDArray[np.bool_]
    """False where a call failed: it costs nothing and changes no cache."""
    sizes: Floats
    """By item, in the provider's tokens."""
    scale: float
    ends: Ints
    """The item behind the last one of the request."""
    cached: Floats
    """The place up to which the unchanged request was cached."""
    behind: Floats
    """Tokens at the end of the request that were behind the last breakpoint, by usage."""
    long_share: Floats
    """Of what was written, the share that was written to live the longest time."""
    prices: Sequence[Prices]
    steps: Ints
    """By item, the number of lookback positions up to its end."""
    recorded: npt.NDArray[np.bool_]
    """Whether usage decided what was cached."""

    @property
    def tokens(self) -> Floats:
        """The size of each unchanged request."""
        return np.concatenate(([0.0], np.cumsum(self.sizes)))[self.ends]


class Account(msgspec.Struct, frozen=True):
    """A session, ready to be billed under any cuts."""

    pages: tuple[Page, ...]
    calibration: Calibration
    warmth: Warmth


def open_account(
    found: Sequence[Stretch], prices: Book = DEFAULT_PRICES, *, assumed_prefix: float = ASSUMED_PREFIX
) -> Account:
    """Calibrate a session and work out, call by call, what was cached of its requests.

    Args:
        found: its epochs in order.
        prices: where prices and cache rules come from.
        assumed_prefix: tokens of system prompt and tools, where no usage tells.
    """
    calibration = calibrate(found, assumed_prefix)
    warmth: Warmth = "recorded" if any(map(_has_cache_figures, found)) else "time to live"
    price = _teller(prices)
    pages: list[Page] = []
    before: _Before | None = None
    for stretch in found:
        page, before = _page(stretch, calibration, price, before, warmth)
        pages.append(page)
    return Account(tuple(pages), calibration, warmth)


def _has_cache_figures(stretch: Stretch) -> bool:
    return any(
        counted(call) and call.usage is not None and (call.usage.cache_read or call.usage.cache_write)
        for call in stretch.calls
    )


def _teller(book: Book) -> Callable[[LLMCall], Prices]:
    """Asks once a model and day."""
    known: dict[tuple[str, str, str, int], Prices] = {}

    def ask(call: LLMCall) -> Prices:
        day = -1 if call.time is None else int(call.time // 86400)
        key = (*call.answerer, day)
        if key not in known:
            known[key] = at_speed(book.prices_for(call.model, call.provider, call.time), call.speed)
        return known[key]

    return ask


class _Before(msgspec.Struct, frozen=True):
    """The call before, as far as the next one's cache depends on it."""

    call: LLMCall
    tokens: float
    end: int
    same_epoch: bool


def _page(
    stretch: Stretch,
    calibration: Calibration,
    price: Callable[[LLMCall], Prices],
    before: _Before | None,
    warmth: Warmth,
) -> tuple[Page, _Before | None]:
    sizes = np.concatenate(
        ([calibration.prefix], calibration.scale * np.asarray(stretch.sizes, dtype=np.float64))
    )
    row = np.concatenate(([0.0], np.cumsum(sizes)))
    calls = list(stretch.calls)
    ends = np.array([call.position + 1 for call in calls], dtype=np.intp)
    cached, behind, long_share = (np.zeros(len(calls)) for _ in range(3))
    recorded = np.zeros(len(calls), dtype=np.bool_)
    prices = [price(call) for call in calls]
    if before is not None:
        before = msgspec.structs.replace(before, same_epoch=False, end=1 + stretch.shared)
    for index, call in enumerate(calls):
        if call.failed:
            continue
        end, rules = int(ends[index]), prices[index].rules
        if warmth == "recorded" and counted(call) and call.usage is not None:
            recorded[index] = True
            cached[index] = _recorded_place(call.usage, row, end, before, rules)
            share = float(row[end]) / input_tokens(call.usage)
            written = call.usage.cache_write
            behind[index] = share * call.usage.input if written or rules.write != 1 else 0.0
            long_share[index] = min(1.0, call.usage.cache_write_1h / written) if written else 0.0
        else:
            cached[index] = _clock_place(call, before, rules, end)
        before = _Before(call, float(row[end]), end, True)
    places = np.asarray(stretch.places or [1] * len(stretch.sizes), dtype=np.intp)
    page = Page(
        calls,
        np.array([not call.failed for call in calls], dtype=np.bool_),
        sizes,
        calibration.scale,
        ends,
        cached,
        behind,
        long_share,
        prices,
        np.concatenate(([0, 1], 1 + np.cumsum(places))).astype(np.intp),
        recorded,
    )
    return page, before


def _recorded_place(usage: Usage, row: Floats, end: int, before: _Before | None, rules: CacheRules) -> float:
    """Up to where usage says that a request was cached.

    Reads of the whole request before, but for the rounding of the provider, end where it ended.
    """
    if before is not None and before.same_epoch and counted(before.call):
        sent = input_tokens(before.call.usage)
        if abs(usage.cache_read - sent) <= rules.step + 0.005 * sent:
            return float(before.end)
        if usage.cache_read < sent:
            return _place(row, usage.cache_read / sent * before.tokens, before.end)
    return _place(row, usage.cache_read / input_tokens(usage) * float(row[end]), end)


def _place(row: Floats, tokens: float, end: int) -> float:
    """The place in the row up to which there are so many tokens."""
    if tokens >= row[end]:
        return float(end)
    item = int(np.searchsorted(row, tokens, side="right")) - 1
    return item + float((tokens - row[item]) / (row[item + 1] - row[item]))


def _clock_place(call: LLMCall, before: _Before | None, rules: CacheRules, end: int) -> float:
    """Up to where a request was cached, by the clock: what went out before, unless it is too old."""
    if before is None or before.tokens < rules.minimum:
        return 0.0
    last = before.call
    if call.answerer != last.answerer:
        return 0.0
    if call.time is not None and last.time is not None:
        used = max(last.time, call.warmed or last.time)
        if call.time - used > rules.time_to_live:
            return 0.0
    return float(min(before.end, end))


# ---------------------------------------------------------------- bills


class Bill(msgspec.Struct, frozen=True):
    """What the input of one session costs, call by call over all its epochs; failed calls are zeros."""

    tokens: Floats
    read: Floats
    write: Floats
    """Written to live the default time."""
    write_1h: Floats
    uncached: Floats
    cost: Floats
    """In base input tokens."""
    dollars: Floats
    """NaN where the price is not known."""
    breaks: int
    """How often a cut changed what was cached."""
    beside: float = 0.0
    """What the requests beside the conversation cost as they were counted, in base input tokens. Nothing is
    taken off it: without the cuts they would have been no cheaper."""
    beside_dollars: float = 0.0

    @property
    def total(self) -> float:
        """The cost of all calls and of the requests beside them, in base input tokens."""
        return math.fsum(self.cost) + self.beside

    @property
    def total_dollars(self) -> float | None:
        """The cost of all calls in US dollars, where all prices are known."""
        total = math.fsum(self.dollars) + self.beside_dollars
        return None if math.isnan(total) else total

    @property
    def peak(self) -> float:
        """The largest request, in tokens."""
        return float(self.tokens.max(initial=0.0))


def suffix_bill(account: Account, cuts: Sequence[Iterable[Cut]] = ()) -> Bill:
    """The bill where a cache holds any beginning of a request: what lies before a change stays cached.

    Args:
        account: the session.
        cuts: for each epoch what a policy takes out; none: the session as it was.
    """
    return _bill(account, cuts, _kept_by_suffix, _as_found)


def lookback_bill(account: Account, cuts: Sequence[Iterable[Cut]] = ()) -> Bill:
    """The bill under each provider's own rules: entries end at breakpoints, are found only so far back,
    and live so long; automatic caches count in steps from a minimum on.

    Clients are taken to set breakpoints behind the fixed prefix and at the end of each request.
    """
    return _bill(account, cuts, _kept_by_entries, _granted)


class _Change(msgspec.Struct, frozen=True):
    """A call at which a policy changed what had been sent."""

    call: int
    item: int


_Keeper = Callable[[Page, Floats, list[_Change]], Floats]
"""From the places up to which requests were cached to those up to which they still are."""
_Grant = Callable[[Page, Ints, Floats, Floats], Floats]
"""From the tokens before those places to the tokens that are read, for some calls of one price."""


def _bill(account: Account, cuts: Sequence[Iterable[Cut]], keeper: _Keeper, grant: _Grant) -> Bill:
    sheets: list[Floats] = []
    breaks = 0
    for index, page in enumerate(account.pages):
        sheet, broken = _sheet(page, list(cuts[index]) if index < len(cuts) else [], keeper, grant)
        sheets.append(sheet)
        breaks += broken
    rows = np.concatenate(sheets, axis=1) if sheets else np.zeros((7, 0))
    tokens, read, write, write_1h, uncached, cost, dollars = rows
    beside = [
        (counted_cost(usage, prices), prices)
        for page in account.pages
        for call, prices in zip(page.calls, page.prices, strict=True)
        for usage in call.beside
    ]
    dollars_beside = [prices.dollars(units) for units, prices in beside]
    return Bill(
        tokens,
        read,
        write,
        write_1h,
        uncached,
        cost,
        dollars,
        breaks,
        math.fsum(units for units, _ in beside),
        math.fsum(math.nan if one is None else one for one in dollars_beside),
    )


def _sheet(page: Page, cuts: list[Cut], keeper: _Keeper, grant: _Grant) -> tuple[Floats, int]:
    """The rows of a bill for one epoch: tokens, read, write, write_1h, uncached, cost, dollars."""
    calls = len(page.calls)
    by_call: dict[int, list[Cut]] = {}
    for cut in cuts:
        by_call.setdefault(cut.call, []).append(cut)
    changes = _changes(page, by_call)
    kept = keeper(page, page.cached.copy(), changes)
    tokens, read = np.zeros(calls), np.zeros(calls)
    sizes = page.sizes.copy()
    starts = [0, *sorted(call for call in by_call if 0 < call < calls), calls]
    for start, stop in pairwise(starts):
        for cut in by_call.get(start, ()):
            sizes[cut.position + 1] -= page.scale * cut.removed
        row = np.concatenate(([0.0], np.cumsum(np.maximum(sizes, 0.0))))
        tokens[start:stop] = row[page.ends[start:stop]]
        read[start:stop] = tokens_before(row, kept[start:stop])
    broken = sum(1 for change in changes if change.item < page.cached[change.call])
    return _charged(page, tokens, np.minimum(read, tokens), grant), broken


def tokens_before(row: Floats, places: Floats) -> Floats:
    """The tokens before places in a row (of running sums), with their fractions."""
    return np.interp(places, np.arange(len(row), dtype=np.float64), row)


def _changes(page: Page, by_call: dict[int, list[Cut]]) -> list[_Change]:
    """Where the request of a billed call first differs from what was sent before, by call."""
    changes: list[_Change] = []
    pending: int | None = None
    for call in range(len(page.calls)):
        for cut in by_call.get(call, ()):
            item = cut.position + 1
            pending = item if pending is None else min(pending, item)
        if pending is not None and page.billed[call]:
            changes.append(_Change(call, pending))
            pending = None
    return changes


def _kept_by_suffix(page: Page, places: Floats, changes: list[_Change]) -> Floats:  # noqa: ARG001
    for change in changes:
        places[change.call] = min(places[change.call], change.item)
    return places


class _Entry(msgspec.Struct):
    """What is held of one epoch: a beginning of its requests."""

    end: int
    used: float | None


def _kept_by_entries(page: Page, places: Floats, changes: list[_Change]) -> Floats:
    """The place up to which each request is cached, where entries end at the ends of earlier requests."""
    changed = {change.call: change.item for change in changes}
    entries: list[_Entry] = []
    last: LLMCall | None = None
    for index in np.flatnonzero(page.billed).tolist():
        call, item = page.calls[index], changed.get(index, math.inf)
        if last is not None and call.answerer != last.answerer:
            entries.clear()
        while entries and entries[-1].end > item:
            entries.pop()
        if entries and call.warmed is not None:
            entries[-1].used = max(call.warmed, entries[-1].used or 0.0)
        places[index] = _kept(page, entries, index, item)
        _use(entries, places[index], call.time)
        entries.append(_Entry(int(page.ends[index]), call.time))
        last = call
    return places


def _kept(page: Page, entries: list[_Entry], index: int, item: float) -> float:
    """The place up to which one request is cached, whose first change is at `item`."""
    rules, unchanged = page.prices[index].rules, float(page.cached[index])
    if rules.style == "automatic":
        return min(unchanged, item)
    if item < unchanged:
        return _reachable(page, entries, index)
    if page.recorded[index] or _in_reach(page, unchanged, index):
        return unchanged
    return min(1.0, unchanged)


def _in_reach(page: Page, place: float, index: int) -> bool:
    lookback = page.prices[index].rules.lookback
    return lookback is None or bool(page.steps[page.ends[index]] - page.steps[int(place)] < lookback)


def _reachable(page: Page, entries: list[_Entry], index: int) -> float:
    """The end of the longest entry that still holds; else that of the fixed prefix."""
    rules, now = page.prices[index].rules, page.calls[index].time
    lifetime = rules.longest if page.long_share[index] else rules.time_to_live
    for entry in reversed(entries):
        if not _in_reach(page, entry.end, index):
            break
        alive = now is None or entry.used is None or now - entry.used <= lifetime
        if alive and entry.end <= page.cached[index]:
            return float(entry.end)
    return min(1.0, float(page.cached[index]))


def _use(entries: list[_Entry], place: float, time: float | None) -> None:
    """The longest entry that was read starts to live again."""
    for entry in reversed(entries):
        if entry.end <= place:
            entry.used = time
            return


def _charged(page: Page, tokens: Floats, read: Floats, grant: _Grant) -> Floats:
    sheet = np.zeros((7, len(tokens)))
    groups: dict[int, list[int]] = {}
    for index, prices in enumerate(page.prices):
        if page.billed[index]:
            groups.setdefault(id(prices), []).append(index)
    for indices in groups.values():
        at = np.array(indices, dtype=np.intp)
        prices = page.prices[indices[0]]
        sheet[:, at] = _charge(prices, page, at, tokens[at], grant(page, at, tokens[at], read[at]))
    return sheet


def _as_found(page: Page, at: Ints, tokens: Floats, read: Floats) -> Floats:  # noqa: ARG001
    return read


def _granted(page: Page, at: Ints, tokens: Floats, read: Floats) -> Floats:
    """What is read once minimum and steps are applied; what usage has counted has them already."""
    rules = page.prices[int(at[0])].rules
    if rules.style == "automatic":
        beyond = rules.minimum + np.floor((read - rules.minimum) / rules.step) * rules.step
        as_recorded = page.recorded[at] & (read >= _unchanged(page, at))
        read = np.where(as_recorded, read, np.where(read < rules.minimum, 0.0, beyond))
    return np.where(tokens < rules.minimum, 0.0, read)


def _unchanged(page: Page, at: Ints) -> Floats:
    """What these calls read unchanged, in tokens."""
    row = np.concatenate(([0.0], np.cumsum(page.sizes)))
    return tokens_before(row, page.cached[at])


def _charge(prices: Prices, page: Page, at: Ints, tokens: Floats, read: Floats) -> Floats:
    rates = np.array(
        [
            [r.input, r.read, r.write, r.write_1h]
            for r in (prices.rates, *(tier.rates for tier in prices.tiers))
        ]
    )
    tier = np.searchsorted([tier.above for tier in prices.tiers], tokens, side="left")
    full, cached, written, written_1h = rates[tier].T
    rest = tokens - read
    uncached = np.minimum(rest, page.behind[at])
    if prices.rates.write == prices.rates.input:
        uncached = rest
    uncached = np.where(tokens < prices.rules.minimum, rest, uncached)
    long = (rest - uncached) * page.long_share[at]
    short = rest - uncached - long
    cost = read * cached + short * written + long * written_1h + uncached * full
    dollars = cost * (np.nan if prices.dollars_per_million is None else prices.dollars_per_million / 1e6)
    return np.stack([tokens, read, short, long, uncached, cost, dollars])


# ---------------------------------------------------------------- recalls


def recall_charge(
    account: Account,
    epoch: int,
    call: int,
    tokens: float,
    until: int | None = None,
    *,
    context: float | None = None,
    output_tokens: float = RECALL_OUTPUT,
) -> float:
    """What one recall costs, in base input tokens.

    The model asks for the output in one more call, which reads the whole context from the cache;
    the output is written, and held in every later call until it is pruned again.

    Args:
        account: the session.
        epoch: which of its epochs.
        call: the LLM call of that epoch at which the output is missed.
        tokens: the size of the output, in the provider's tokens.
        until: the call from which on it is pruned again; None: never.
        context: the size of the request under the policy; None: of the unchanged one.
        output_tokens: what the model writes to ask for it.
    """
    page = account.pages[epoch]
    sent = page.tokens
    size = float(sent[call]) if context is None else context
    rates = page.prices[call].at(size)
    write = rates.write + float(page.long_share[call]) * (rates.write_1h - rates.write)
    extra = rates.read * size + rates.output * output_tokens
    held = 0.0
    for later in range(call + 1, len(page.calls) if until is None else until):
        if page.billed[later]:
            then = page.prices[later].at(float(sent[later]))
            held += then.read if page.cached[later] >= page.ends[call] else then.write
    return write * tokens + extra + held * tokens


# ---------------------------------------------------------------- the check


class Check(msgspec.Struct, frozen=True):
    """How far the simulated session is from what the provider counted. Errors are shares of the count."""

    calls: int
    """How many calls were counted."""
    tokens: float
    counted_tokens: float
    cost: float
    """In base input tokens, simulated."""
    counted_cost: float

    @property
    def token_error(self) -> float:
        """Of all input tokens."""
        return abs(self.tokens - self.counted_tokens) / self.counted_tokens

    @property
    def cost_error(self) -> float:
        """Of the input's cost."""
        return abs(self.cost - self.counted_cost) / self.counted_cost

    @property
    def excluded(self) -> bool:
        """Whether the session is too far off to count in totals."""
        return max(self.token_error, self.cost_error) > EXCLUDED_ABOVE


def check(account: Account, bill: Bill | None = None) -> Check | None:
    """Compare the simulated baseline with usage; None where no usage was recorded.

    Args:
        account: the session.
        bill: its bill without cuts, if it is at hand.
    """
    bill = lookback_bill(account) if bill is None else bill
    calls = [(call, page.prices[index]) for page in account.pages for index, call in enumerate(page.calls)]
    known = [index for index, (call, _) in enumerate(calls) if counted(call)]
    if not known:
        return None
    return Check(
        len(known),
        math.fsum(bill.tokens[known]),
        math.fsum(input_tokens(calls[index][0].usage) for index in known),
        math.fsum(bill.cost[known]),
        math.fsum(counted_cost(calls[index][0].usage, calls[index][1]) for index in known),
    )


def counted_cost(usage: Usage | None, prices: Prices) -> float:
    """What an input costs as the provider counted it, in base input tokens."""
    if usage is None:
        return 0.0
    rates = prices.at(input_tokens(usage))
    long = min(usage.cache_write_1h, usage.cache_write)
    return (
        usage.input * rates.input
        + usage.cache_read * rates.read
        + (usage.cache_write - long) * rates.write
        + long * rates.write_1h
    )
