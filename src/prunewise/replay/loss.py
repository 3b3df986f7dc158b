"""What a policy would have lost: the needs of a session whose every source had been cut by then.

Knows needs and cuts, not how either came about, and no price: a bill charges the recalls that are
listed here. Holds the policies to compare with at equal tokens.
docs/explanation/information-loss.md has the definitions.
"""

from __future__ import annotations

import heapq
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

import msgspec

from prunewise.condense import without_noise
from prunewise.recording import Epoch
from prunewise.replay.needs import (
    KINDS,
    UPPER,
    Evidence,
    Lines,
    Need,
    NeedKind,
    Place,
    Ruler,
    line_numbers,
    names,
    runs,
)
from prunewise.replay.policies import Cut
from prunewise.tokens import DOCUMENTED, text_tokens
from prunewise.transcript import TOOL_RESULT, ToolResult

_Part = tuple[int, int]
"""A position and a part."""


class Recall(msgspec.Struct, frozen=True, gc=False):
    """A block that has to come back in full: one more LLM call, and its tokens in every request after it."""

    call: int
    """The LLM call of the epoch at which it is needed."""
    tokens: int
    """The block's size in full, in estimated tokens."""
    until: int
    """The first LLM call whose request is without it again: it was cut again, or the epoch has ended."""
    position: int
    part: int
    strategy: str
    """Whose cut it was."""
    evidence: Evidence
    """The first evidence of the first need that it serves."""
    serves: int
    """How many needs it serves that were lost."""


class Tally(msgspec.Struct, frozen=True):
    """Figures of one epoch, or of any number of them together."""

    blocks: int = 0
    """How many parts were cut."""
    tokens: int = 0
    """How many tokens that took out, each cut counted once."""
    faults: Mapping[NeedKind, int] = {}
    """How many needs were lost, by kind."""
    recalls: Mapping[NeedKind, int] = {}
    """How many blocks had to come back, by the kind of the first need that asked for each."""
    recalled_tokens: int = 0
    needs: int = 0
    """How many needs there were, lost or not."""
    sessions: int = 0
    """How many sessions are in it; the epochs of one session count nothing by themselves."""

    def __add__(self, other: Tally) -> Tally:
        return Tally(
            self.blocks + other.blocks,
            self.tokens + other.tokens,
            _summed(self.faults, other.faults),
            _summed(self.recalls, other.recalls),
            self.recalled_tokens + other.recalled_tokens,
            self.needs + other.needs,
            self.sessions + other.sessions,
        )


class Loss(msgspec.Struct, frozen=True):
    """What one policy lost in one epoch."""

    faults: tuple[Need, ...]
    """The needs that were lost."""
    recalls: tuple[Recall, ...]
    """What has to come back for them, in the order of the calls: charges for the bill."""
    tally: Tally

    def worst(self, most: int = 10) -> list[Recall]:
        """The recalls that serve the most needs, the largest blocks first among equals."""
        return sorted(self.recalls, key=lambda one: (-one.serves, -one.tokens, one.call, one.position))[:most]


def losses(epoch: Epoch, cuts: Iterable[Cut], needs: Iterable[Need], ruler: Ruler = UPPER) -> Loss:
    """Find the needs that cuts leave without a source, and the recalls that make up for it.

    A piece of evidence is hidden when every place that held it was cut at its LLM call or before, and
    nothing that a cut left in place shows it: the lines that still stand as they stood, never a marker's own
    words. A need is lost (a fault) when what is hidden of its evidence is enough for the ruler.

    A recall brings the newest place back, in full. It serves all evidence that follows and stands there,
    until a later cut of the same part takes it out again. So a part comes back once for each time that it
    was cut.

    Args:
        epoch: the epoch that cuts and needs are of.
        cuts: in any order.
        needs: in the order of their LLM calls, as `need_events` gives them.
        ruler: how much evidence makes a need.
    """
    watch = Watch(epoch, needs, ruler)
    by_call: dict[int, list[Cut]] = {}
    for cut in cuts:
        by_call.setdefault(cut.call, []).append(cut)
    for call in sorted({*by_call, *watch.calls}):
        watch.step(call, by_call.get(call, ()))
    return watch.loss()


def summed(losses: Iterable[Loss]) -> Tally:
    """The figures of one session from those of its epochs."""
    total = Tally(sessions=1)
    for loss in losses:
        total += loss.tally
    return total


class Watch:
    """Finds losses and recalls call by call, while cuts are still being made."""

    def __init__(self, epoch: Epoch, needs: Iterable[Need], ruler: Ruler) -> None:
        """`needs` are those of the epoch."""
        self._epoch = epoch
        self._ruler = ruler
        self._needs: dict[int, list[Need]] = {}
        self._considered = 0
        for need in needs:
            if ruler.finds(need):
                self._considered += 1
                self._needs.setdefault(need.call, []).append(need)
        self._cuts: dict[_Part, list[_Standing]] = {}
        """The cuts of each part that was cut, the first first."""
        self._back: dict[_Part, _Recalled] = {}
        self._recalled: list[_Recalled] = []
        self._faults: list[Need] = []

    @property
    def calls(self) -> Iterable[int]:
        """The LLM calls that need something."""
        return self._needs

    def step(self, call: int, cuts: Iterable[Cut]) -> list[Cut]:
        """What has to come back at an LLM call, at which these cuts were made; of each call in turn."""
        for cut in cuts:
            part = (cut.position, cut.part)
            self._cuts.setdefault(part, []).append(_Standing(cut, _kept(self._epoch, cut)))
            back = self._back.pop(part, None)
            if back is not None:
                back.until = call
        asked: list[Cut] = []
        weights = self._ruler.weights
        for need in self._needs.get(call, ()) if self._cuts else ():
            standing = self._cuts.get((need.newest.position, need.newest.part))
            if standing is None:
                continue
            age = call - standing[-1].cut.call
            hidden = [one for one in need.evidence if one.kind in weights and self._hidden(one)]
            if not self._ruler.suffices(hidden, age):
                continue
            self._faults.append(need)
            missing = [one for one in hidden if self._server(one) is None]
            if self._ruler.suffices(missing, age):
                back = _Recalled(call, missing[0], standing[-1].cut)
                self._back[need.newest.position, need.newest.part] = back
                self._recalled.append(back)
                asked.append(back.cut)
            else:
                back = next(one for one in map(self._server, hidden) if one is not None)
            back.serves += 1
        return asked

    def loss(self) -> Loss:
        """What was lost, once all calls are through."""
        weights = self._ruler.weights
        recalls = tuple(one.finished(len(self._epoch.calls)) for one in self._recalled)
        firsts = [standing[0].cut for standing in self._cuts.values()]
        tally = Tally(
            len(firsts),
            sum(cut.removed for cut in firsts),
            _counted(next(one.kind for one in need.evidence if one.kind in weights) for need in self._faults),
            _counted(recall.evidence.kind for recall in recalls),
            sum(recall.tokens for recall in recalls),
            self._considered,
        )
        return Loss(tuple(self._faults), recalls, tally)

    def _hidden(self, evidence: Evidence) -> bool:
        return all(self._hides(place, evidence) for place in reversed(evidence.sources))

    def _hides(self, place: Place, evidence: Evidence) -> bool:
        cuts = self._cuts.get((place.position, place.part))
        if cuts is None:
            return False
        if evidence.kind == "unseen":
            return not _shows_all(cuts[-1].cut.marker, evidence.key)
        return not (cuts[-1].kept and shows(cuts[-1].kept, evidence))

    def _server(self, evidence: Evidence) -> _Recalled | None:
        """The recall that already brought a place of it back, the newest place first."""
        if not self._back:
            return None
        back = (self._back.get((place.position, place.part)) for place in reversed(evidence.sources))
        return next((one for one in back if one is not None), None)


class _Standing(NamedTuple):
    """A cut, and the lines that it left as they stood."""

    cut: Cut
    kept: str


class _Recalled:
    """A recall that goes on serving."""

    def __init__(self, call: int, evidence: Evidence, cut: Cut) -> None:
        self.call = call
        self.evidence = evidence
        self.cut = cut
        self.until: int | None = None
        self.serves = 0

    def finished(self, end: int) -> Recall:
        """The recall as a value, in an epoch of so many LLM calls."""
        cut = self.cut
        return Recall(
            self.call,
            cut.before,
            end if self.until is None else self.until,
            cut.position,
            cut.part,
            cut.strategy,
            self.evidence,
            self.serves,
        )


def _kept(epoch: Epoch, cut: Cut) -> str:
    """The lines of a result that a cut leaves as they stood."""
    part = epoch.messages[cut.position].parts[cut.part]
    if not isinstance(part, ToolResult) or "\n" not in cut.marker:
        return ""
    stood = _lines(part.text)
    return "\n".join(line for line in cut.marker.split("\n") if line in stood)


def shows(kept: str, evidence: Evidence) -> bool:
    """Whether lines that a cut kept show what was used: a page, or an output as a whole, they never do."""
    match evidence.kind:
        case "page" | "unseen":
            return False
        case "old-line":
            return evidence.key in kept and bool(Lines((evidence.key,)).shown_by(kept))
        case "copied-words":
            return evidence.key in _shown(kept, runs)
        case "line-number":
            return evidence.key in _shown(kept, line_numbers)
        case "reference" | "name":
            return evidence.key in _shown(kept, names)


def _shows_all(marker: str, text: str) -> bool:
    """Whether all of an output but proven noise still stands in what replaced it."""
    return "\n" in marker and _lines(without_noise(text) or text) <= _lines(marker)


def _lines(text: str) -> set[str]:
    return {line for line in text.split("\n") if line}


@lru_cache(maxsize=256)
def _shown(kept: str, read: Callable[[str], set[str]]) -> frozenset[str]:
    return frozenset(read(kept))


def _counted(kinds: Iterable[NeedKind]) -> dict[NeedKind, int]:
    found = Counter(kinds)
    return {kind: found[kind] for kind in KINDS}


def _summed(one: Mapping[NeedKind, int], other: Mapping[NeedKind, int]) -> dict[NeedKind, int]:
    return {kind: one.get(kind, 0) + other.get(kind, 0) for kind in KINDS}


# --------------------------------------------------------------- policies at equal tokens

LEFT_OUT = "[output left out]"
"""The marker of the policies to compare with."""

_Rank = Callable[[int, int], tuple[float, ...]]
"""The order in which results go, from a position and a size: the lowest first."""


def oldest_first_cuts(epoch: Epoch, cuts: Iterable[Cut], seed: str = "") -> tuple[Cut, ...]:  # noqa: ARG001
    """As many tokens as these cuts take out, from the oldest results. See `random_cuts`."""
    return _matched(epoch, cuts, "oldest-first", lambda position, _: (position,))


def largest_first_cuts(epoch: Epoch, cuts: Iterable[Cut], seed: str = "") -> tuple[Cut, ...]:  # noqa: ARG001
    """As many tokens as these cuts take out, from the largest results. See `random_cuts`."""
    return _matched(epoch, cuts, "largest-first", lambda position, tokens: (-tokens, position))


def random_cuts(epoch: Epoch, cuts: Iterable[Cut], seed: str) -> tuple[Cut, ...]:
    """As many tokens as these cuts take out, from results drawn by lot.

    At each LLM call at which the cuts take something out, results that an earlier request has held go in
    turn until at least as many tokens are out in all as by then, or there are no results left. The same
    seed draws the same results.

    Args:
        epoch: the epoch that the cuts are of.
        cuts: in any order; a part that is cut again counts once.
        seed: the session's id, and what tells its epochs apart.
    """
    draw = random.Random(seed)  # noqa: S311
    return _matched(epoch, cuts, "random", lambda _position, _tokens: (draw.random(),))


def _matched(epoch: Epoch, cuts: Iterable[Cut], name: str, rank: _Rank) -> tuple[Cut, ...]:
    after = text_tokens(LEFT_OUT)
    waiting: list[tuple[tuple[float, ...], int, int, int]] = []
    made: list[Cut] = []
    read = owed = 0
    for call, removed in _removed_at(cuts):
        sent = epoch.calls[call - 1].position if call else 0
        for position, part, tokens in _results(epoch, read, sent):
            if tokens > after:
                heapq.heappush(waiting, (rank(position, tokens), position, part, tokens))
        read = max(read, sent)
        owed += removed
        while owed > 0 and waiting:
            _, position, part, tokens = heapq.heappop(waiting)
            made.append(Cut(call, position, part, TOOL_RESULT, tokens, after, name, LEFT_OUT))
            owed -= tokens - after
    return tuple(made)


def _removed_at(cuts: Iterable[Cut]) -> list[tuple[int, int]]:
    """LLM calls and the tokens that go at each, in order."""
    firsts: dict[_Part, Cut] = {}
    for cut in sorted(cuts, key=lambda cut: cut.call):
        firsts.setdefault((cut.position, cut.part), cut)
    found: Counter[int] = Counter()
    for cut in firsts.values():
        found[cut.call] += cut.removed
    return sorted(found.items())


def _results(epoch: Epoch, start: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Position, part and size of each result among some messages."""
    for position in range(start, end):
        for index, part in enumerate(epoch.messages[position].parts):
            if type(part) is ToolResult:
                yield position, index, DOCUMENTED.content(part)
