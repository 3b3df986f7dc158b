"""What a provider's prompt cache holds of one conversation, as a value.

The state is fed with each request and, where there is one, with the usage that its answer reported;
it says how the input of a next request would split into tokens read, written and uncached. Recorded
usage decides what was found; the time to live decides only where there is none. Knows no clock and
no message: requests come as blocks with a size and an identity, and times are handed in.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable

import msgspec

from prunewise.prices import CacheRules, Rates
from prunewise.transcript import Usage

Block = tuple[str, int]
"""The identity of a part of a request (equal texts, equal identities) and its size in tokens.

Where the provider counts lookback, a block is one of its positions: Anthropic counts a run of
consecutive calls, or of consecutive results, as one."""

_FOUND = 0.5
"""Of the tokens that were expected to be read, the share from which on the cache counts as warm."""


class Prefix:
    """The blocks of a request in order, with a running hash, so that common beginnings are found quickly.

    `scope` is what must be equal besides the blocks: provider, model, account. Immutable; `extended`
    gives a longer one.
    """

    __slots__ = ("chain", "ends")

    chain: tuple[int, ...]
    """For each number of blocks the identity of so many first ones."""
    ends: tuple[int, ...]
    """For each number of blocks their size in tokens."""

    def __init__(self, scope: str = "", blocks: Iterable[Block] = ()) -> None:
        self.chain = (_chained(0, scope, 0),)
        self.ends = (0,)
        self._append(blocks)

    def _append(self, blocks: Iterable[Block]) -> None:
        chain, ends = list(self.chain), list(self.ends)
        for identity, tokens in blocks:
            chain.append(_chained(chain[-1], identity, tokens))
            ends.append(ends[-1] + tokens)
        self.chain, self.ends = tuple(chain), tuple(ends)

    def __len__(self) -> int:
        return len(self.chain) - 1

    @property
    def tokens(self) -> int:
        """The size of all blocks."""
        return self.ends[-1]

    def extended(self, blocks: Iterable[Block]) -> Prefix:
        """These blocks and more behind them."""
        return self.replaced(len(self), blocks)

    def replaced(self, at: int, blocks: Iterable[Block]) -> Prefix:
        """The first `at` blocks, and others behind them."""
        longer = Prefix()
        longer.chain, longer.ends = self.chain[: at + 1], self.ends[: at + 1]
        longer._append(blocks)
        return longer

    def common(self, other: Prefix) -> int:
        """How many first blocks the two share; -1 where not even the scope."""
        low, high = 0, min(len(self.chain), len(other.chain))
        while low < high:
            middle = (low + high) // 2
            if self.chain[middle] == other.chain[middle]:
                low = middle + 1
            else:
                high = middle
        return low - 1


def _chained(before: int, identity: str, tokens: int) -> int:
    import hashlib  # not above: OpenSSL takes 3 MB of a process that may never come here

    text = f"{before:x} {tokens} {identity}".encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest())


class Breakpoint(msgspec.Struct, frozen=True):
    """Where a request marks a prefix to be cached: after so many blocks."""

    at: int
    long: bool = False
    """Whether the entry is to live the longest time (Anthropic: one hour) instead of the default."""


class Request(msgspec.Struct, frozen=True):
    """One request as the cache sees it."""

    prefix: Prefix
    time: float
    """Seconds; only differences count."""
    breakpoints: tuple[Breakpoint, ...] | None = None
    """None where the provider sets one itself, at the end. Automatic caches look at none."""


class Split(msgspec.Struct, frozen=True):
    """How the input of a request is billed, in tokens."""

    read: int = 0
    write: int = 0
    """Written to live the default time."""
    write_1h: int = 0
    """Written to live the longest time."""
    uncached: int = 0

    @property
    def tokens(self) -> int:
        """The whole input."""
        return self.read + self.write + self.write_1h + self.uncached

    def cost(self, rates: Rates) -> float:
        """In base input tokens."""
        return (
            self.read * rates.read
            + self.write * rates.write
            + self.write_1h * rates.write_1h
            + self.uncached * rates.input
        )


class Entry(msgspec.Struct, frozen=True):
    """A prefix that the provider holds."""

    identity: int
    length: int
    """In blocks."""
    tokens: int
    used: float
    """When it was last written or read."""
    long: bool = False
    prefix: Prefix | None = None
    """Of an automatic cache, which finds every beginning of it."""


class CacheState(msgspec.Struct, frozen=True):
    """What the provider holds of one conversation.

    For a forecast of what a pause costs, start from the default time to live. For a decision that
    loses money when the cache turns out to be warm, start from `rules.longest`. Usage corrects either.
    """

    rules: CacheRules
    time_to_live: float = 0.0
    """Seconds after its last use for which an entry is taken to live; 0 stands for the rules' default."""
    entries: tuple[Entry, ...] = ()
    """The latest last."""

    @property
    def automatic(self) -> bool:
        """Whether any beginning of an earlier request is found, rather than what ends at a breakpoint."""
        return self.rules.style == "automatic"

    @property
    def lifetime(self) -> float:
        """The time to live that is believed in, in seconds."""
        return self.time_to_live or self.rules.time_to_live

    def lives(self, entry: Entry, now: float) -> bool:
        """Whether an entry is still there, by the clock."""
        lifetime = max(self.lifetime, self.rules.longest) if entry.long else self.lifetime
        return now - entry.used <= lifetime

    def expect(self, request: Request) -> Split:
        """How the input of this request would split."""
        if self.automatic:
            return self._automatic_split(request, self._longest_common(request))
        return self._explicit_split(request, self._reached(request))

    def after(self, request: Request, usage: Usage | None = None) -> CacheState:
        """The state once this request has been sent, and its answer has reported `usage`."""
        if usage is None:
            return self._with_request(request) if self.automatic else self._with_breakpoints(request)
        corrected = self.corrected(request, usage)
        if not (self.automatic or usage.cache_read or usage.cache_write):
            return corrected  # nothing was marked, or it is too short: nothing was written
        return corrected.after(request)

    # ------------------------------------------------------------ automatic caches

    def _longest_common(self, request: Request) -> int:
        return max(
            (
                request.prefix.common(entry.prefix)
                for entry in self.entries
                if entry.prefix is not None and self.lives(entry, request.time)
            ),
            default=0,
        )

    def _automatic_split(self, request: Request, blocks: int) -> Split:
        total = request.prefix.tokens
        read = self._in_steps(request.prefix.ends[max(blocks, 0)])
        if self.rules.write == 1 or total < self.rules.minimum:
            return Split(read, uncached=total - read)
        return Split(read, write=total - read)

    def _in_steps(self, tokens: int) -> int:
        beyond = tokens - self.rules.minimum
        return 0 if beyond < 0 else self.rules.minimum + beyond // self.rules.step * self.rules.step

    def _with_request(self, request: Request) -> CacheState:
        prefix = request.prefix
        entry = Entry(prefix.chain[-1], len(prefix), prefix.tokens, request.time, prefix=prefix)
        kept = [
            old
            for old in self.entries
            if old.prefix is not None
            and prefix.common(old.prefix) < old.length
            and self.lives(old, request.time)
        ]
        return msgspec.structs.replace(self, entries=(*kept, entry))

    # ------------------------------------------------------------ caches with breakpoints

    def _breakpoints(self, request: Request) -> list[Breakpoint]:
        given = request.breakpoints
        if given is None:
            given = (Breakpoint(len(request.prefix)),)
        latest = sorted(given, key=lambda point: point.at)[-(self.rules.breakpoints or len(given) or 1) :]
        return [point for point in latest if request.prefix.ends[point.at] >= self.rules.minimum]

    def _found(self, request: Request) -> list[Entry]:
        """For each breakpoint the longest entry within its reach."""
        matching = [
            entry
            for entry in self.entries
            if self._of(entry, request.prefix) and self.lives(entry, request.time)
        ]
        matching.sort(key=lambda entry: entry.length)
        lengths = [entry.length for entry in matching]
        found: list[Entry] = []
        for point in self._breakpoints(request):
            index = bisect_right(lengths, point.at) - 1
            if index >= 0 and (
                self.rules.lookback is None or point.at - lengths[index] < self.rules.lookback
            ):
                found.append(matching[index])
        return found

    def _reached(self, request: Request) -> int:
        return max((entry.length for entry in self._found(request)), default=0)

    def _explicit_split(self, request: Request, blocks: int) -> Split:
        ends = request.prefix.ends
        read = reached = ends[blocks]
        written = {False: 0, True: 0}
        for point in self._breakpoints(request):
            written[point.long] += max(0, ends[point.at] - reached)
            reached = max(reached, ends[point.at])
        return Split(read, written[False], written[True], ends[-1] - reached)

    def _with_breakpoints(self, request: Request) -> CacheState:
        prefix, now = request.prefix, request.time
        fresh = {
            prefix.chain[point.at]: Entry(
                prefix.chain[point.at], point.at, prefix.ends[point.at], now, point.long
            )
            for point in self._breakpoints(request)
        }
        held = {entry.identity: entry for entry in self.entries if self.lives(entry, now)}
        for entry in self._found(request):
            if self.rules.refreshed:
                fresh.setdefault(entry.identity, msgspec.structs.replace(entry, used=now))
            else:
                fresh.pop(entry.identity, None)
        for identity in fresh:
            held.pop(identity, None)
        return msgspec.structs.replace(self, entries=(*held.values(), *fresh.values()))

    # ------------------------------------------------------------ what usage says

    def corrected(self, request: Request, usage: Usage) -> CacheState:
        """The state before this request, as the usage of its answer shows it to have been.

        Reads after a longer pause than was believed possible raise the time to live. Where most of
        what was expected was not read, the entries are taken out, and a time to live that was
        believed longer than the provider's default is lowered.
        """
        counted = usage.input + usage.cache_read + usage.cache_write
        mine = [entry for entry in self.entries if self._of(entry, request.prefix)]
        if not (counted and mine):
            return self
        read = usage.cache_read * request.prefix.tokens / counted
        latest = max(mine, key=lambda entry: entry.used)
        pause = 0.0 if latest.long else request.time - latest.used
        patient = msgspec.structs.replace(self, time_to_live=max(self.lifetime, pause))
        expected = patient.expect(request).read
        if not expected:
            return self
        if read >= _FOUND * expected:
            return patient
        lifetime = min(self.lifetime, max(self.rules.time_to_live, pause))
        gone = {entry.identity for entry in mine if entry.tokens > read}
        left = tuple(entry for entry in self.entries if entry.identity not in gone)
        return msgspec.structs.replace(self, time_to_live=lifetime, entries=left)

    @staticmethod
    def _of(entry: Entry, prefix: Prefix) -> bool:
        """Whether the entry, or of an automatic cache a beginning of it, belongs to this request."""
        if entry.prefix is not None:
            return prefix.common(entry.prefix) > 0
        return entry.length < len(prefix.chain) and prefix.chain[entry.length] == entry.identity


# ---------------------------------------------------------------- how likely it is still there


class Warmth(msgspec.Struct, frozen=True):
    """How likely what was sent is still cached after a pause, learnt from hits and misses.

    Five kinds of pause: up to a minute, five minutes, ten, an hour, and longer. What is known beforehand
    counts like a few calls of each kind; a provider that promises longer is believed in part.
    """

    hits: tuple[int, ...] = (0, 0, 0, 0, 0)
    misses: tuple[int, ...] = (0, 0, 0, 0, 0)

    def probability(self, pause: float | None, rules: CacheRules, *, long: bool = False) -> float:
        """How likely the next request finds what the last one left.

        Args:
            pause: seconds since the cache was last used; None where unknown.
            rules: the model's.
            long: whether what was written is to live the longest time.
        """
        kind = _kind(pause)
        hits, misses = _PRIORS[kind]
        if pause is not None:
            if pause > rules.longest:
                hits, misses = _PRIORS[-1]
            elif long and kind > 1 and "longest" not in rules.assumed:
                hits, misses = _PRIORS[1]
            elif kind > 1 and pause <= rules.time_to_live:
                hits *= _PROMISED
        hits += self.hits[kind]
        return hits / (hits + misses + self.misses[kind])

    def after(self, pause: float, *, hit: bool) -> Warmth:
        """With one more call taken in."""
        kind = _kind(pause)
        counts = list(self.hits if hit else self.misses)
        counts[kind] += 1
        name = "hits" if hit else "misses"
        return msgspec.structs.replace(self, **{name: tuple(counts)})


UNTOLD = Warmth()
_PAUSES = (60.0, 300.0, 600.0, 3600.0)
_PRIORS = ((40.0, 0.5), (8.0, 0.7), (3.0, 2.0), (2.0, 2.0), (0.1, 4.9))
_PROMISED = 2.0


def _kind(pause: float | None) -> int:
    return 0 if pause is None else bisect_left(_PAUSES, pause)
