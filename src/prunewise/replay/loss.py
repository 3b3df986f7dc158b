"""What a policy would have lost: the needs of a session whose every source had been cut by then.

Knows needs and cuts, not how either came about, and no price: a bill charges the recalls that are
listed here. Holds the policies to compare with at equal tokens, and the planting of known losses by
which the detector is proved. docs/explanation/information-loss.md has the definitions.
"""

from __future__ import annotations

import heapq
import math
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Literal, NamedTuple

import msgspec

from prunewise.recording import Epoch
from prunewise.replay.needs import KINDS, Lines, Need, NeedKind, Place, references
from prunewise.replay.policies import Cut
from prunewise.tokens import DOCUMENTED, text_tokens
from prunewise.tools import Vocabulary
from prunewise.transcript import TOOL_RESULT, Message, Part, Text, ToolCall, ToolResult


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
    need: Need
    """The first need that it serves."""
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

    def per_100_blocks(self, counts: Mapping[NeedKind, int]) -> float:
        """How many of these (`faults` or `recalls`) there are for each 100 parts that were cut."""
        return _ratio(100 * sum(counts.values()), self.blocks)

    def per_million_tokens(self, counts: Mapping[NeedKind, int]) -> float:
        """How many of these there are for each million tokens that were taken out."""
        return _ratio(1_000_000 * sum(counts.values()), self.tokens)

    def per_session(self, counts: Mapping[NeedKind, int]) -> float:
        """How many of these there are for each session."""
        return _ratio(sum(counts.values()), self.sessions)


class Loss(msgspec.Struct, frozen=True):
    """What one policy lost in one epoch."""

    faults: tuple[Need, ...]
    """The needs that were lost: all sources cut, and no marker that shows the key."""
    recalls: tuple[Recall, ...]
    """What has to come back for them, in the order of the calls: charges for the bill."""
    tally: Tally

    def worst(self, most: int = 10) -> list[Recall]:
        """The recalls that serve the most needs, the largest blocks first among equals."""
        return sorted(self.recalls, key=lambda one: (-one.serves, -one.tokens, one.call, one.position))[:most]


def losses(epoch: Epoch, cuts: Iterable[Cut], needs: Iterable[Need]) -> Loss:
    """Find the needs that cuts leave without a source, and the recalls that make up for it.

    A need is lost (a fault) when every one of its sources was cut at its LLM call or before, and none of
    the markers that stand there shows its key. For a page fault no marker does: the path is not the page.
    More cuts, or earlier ones, never lose fewer needs.

    A recall brings the newest source back, in full. It serves every need that follows and has this
    source, until a later cut of the same part takes it out again. So a part comes back once for each time
    that it was cut.

    Args:
        epoch: the epoch that cuts and needs are of.
        cuts: in any order.
        needs: in the order of their LLM calls, as `need_events` gives them.
    """
    standing = _by_place(cuts)
    gone = _Gone(standing)
    back: dict[tuple[int, int], _Recalled] = {}
    recalled: list[_Recalled] = []
    faults: list[Need] = []
    considered = 0
    for need in needs:
        considered += 1
        if not gone.all_of(need):
            continue
        faults.append(need)
        served = _serving(need, back)
        if served is None:
            served = _recall(need, standing, len(epoch.calls))
            back[served.cut.position, served.cut.part] = served
            recalled.append(served)
        served.serves += 1
    recalls = tuple(one.finished() for one in recalled)
    firsts = [found[0] for found in standing.values()]
    tally = Tally(
        len(firsts),
        sum(cut.removed for cut in firsts),
        _counted(need.kind for need in faults),
        _counted(recall.need.kind for recall in recalls),
        sum(recall.tokens for recall in recalls),
        considered,
    )
    return Loss(tuple(faults), recalls, tally)


def summed(losses: Iterable[Loss]) -> Tally:
    """The figures of one session from those of its epochs."""
    total = Tally(sessions=1)
    for loss in losses:
        total += loss.tally
    return total


class Watch:
    """Tells of recalls while cuts are still being made: the same, in order, as `losses` finds in the end."""

    def __init__(self, needs: Sequence[Need]) -> None:
        """`needs` are those of one epoch, in the order of their LLM calls."""
        self._needs: dict[int, list[Need]] = {}
        for need in needs:
            self._needs.setdefault(need.call, []).append(need)
        self._first: dict[tuple[int, int], Cut] = {}
        self._latest: dict[tuple[int, int], Cut] = {}
        self._back: set[tuple[int, int]] = set()

    def step(self, call: int, cuts: Iterable[Cut]) -> list[Cut]:
        """What has to come back at an LLM call, at which these cuts were made; of each call in turn."""
        for cut in cuts:
            place = (cut.position, cut.part)
            self._first.setdefault(place, cut)
            self._latest[place] = cut
            self._back.discard(place)
        recalled: list[Cut] = []
        for need in self._needs.get(call, ()) if self._first else ():
            places = [(place.position, place.part) for place in need.sources]
            if not all(self._hides(place, need) for place in reversed(places)):
                continue
            if not any(place in self._back for place in places):
                self._back.add(places[-1])
                recalled.append(self._latest[places[-1]])
        return recalled

    def _hides(self, place: tuple[int, int], need: Need) -> bool:
        cut = self._first.get(place)
        return cut is not None and not shows(cut.marker, need)


class _Recalled:
    """A recall that goes on serving."""

    def __init__(self, need: Need, cut: Cut, until: int) -> None:
        self.need = need
        self.cut = cut
        self.until = until
        self.serves = 0

    def finished(self) -> Recall:
        """The recall as a value."""
        cut = self.cut
        return Recall(
            self.need.call,
            cut.before,
            self.until,
            cut.position,
            cut.part,
            cut.strategy,
            self.need,
            self.serves,
        )


class _Gone:
    """From which LLM call on the first so many places of a key are all gone; each place is looked at once."""

    def __init__(self, standing: Mapping[tuple[int, int], Sequence[Cut]]) -> None:
        self._standing = standing
        self._reached: dict[tuple[NeedKind, str, int], tuple[tuple[Place, ...], int, float]] = {}

    def all_of(self, need: Need) -> bool:
        """Whether nothing shows the key any more at the need's call."""
        known = need.kind, need.key, id(need.places)
        _, seen, last = self._reached.get(known, (need.places, 0, -1.0))
        if seen > need.count:
            seen, last = 0, -1.0
        while seen < need.count and last < math.inf:
            last = max(last, self._from(need, need.places[seen]))
            seen += 1
        self._reached[known] = need.places, seen, last
        return last <= need.call

    def _from(self, need: Need, place: Place) -> float:
        cuts = self._standing.get((place.position, place.part))
        return math.inf if cuts is None or shows(cuts[0].marker, need) else cuts[0].call


def _serving(need: Need, back: Mapping[tuple[int, int], _Recalled]) -> _Recalled | None:
    """The recall that already brought back a source of the need, the newest source first."""
    if not back:
        return None
    for index in range(need.count - 1, -1, -1):
        place = need.places[index]
        found = back.get((place.position, place.part))
        if found is not None and need.call < found.until:
            return found
    return None


def _recall(need: Need, standing: Mapping[tuple[int, int], Sequence[Cut]], end: int) -> _Recalled:
    newest = need.places[need.count - 1]
    cuts = standing[newest.position, newest.part]
    last = max(index for index, cut in enumerate(cuts) if cut.call <= need.call)
    return _Recalled(need, cuts[last], cuts[last + 1].call if last + 1 < len(cuts) else end)


def _by_place(cuts: Iterable[Cut]) -> dict[tuple[int, int], list[Cut]]:
    """The cuts of each part, the first first."""
    found: dict[tuple[int, int], list[Cut]] = {}
    for cut in sorted(cuts, key=lambda cut: (cut.call, cut.position, cut.part)):
        found.setdefault((cut.position, cut.part), []).append(cut)
    return found


def shows(marker: str, need: Need) -> bool:
    """Whether a marker meets a need: a page it never does."""
    if need.kind == "page-fault":
        return False
    if need.kind == "edit-regret":
        return need.key in marker and bool(Lines((need.key,)).shown_by(marker))
    return need.key in _marker_references(marker)


@lru_cache(maxsize=256)
def _marker_references(marker: str) -> frozenset[str]:
    return frozenset(references(marker))


def _counted(kinds: Iterable[NeedKind]) -> dict[NeedKind, int]:
    found = Counter(kinds)
    return {kind: found[kind] for kind in KINDS}


def _summed(one: Mapping[NeedKind, int], other: Mapping[NeedKind, int]) -> dict[NeedKind, int]:
    return {kind: one.get(kind, 0) + other.get(kind, 0) for kind in KINDS}


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


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
    found: Counter[int] = Counter()
    for standing in _by_place(cuts).values():
        found[standing[0].call] += standing[0].removed
    return sorted(found.items())


def _results(epoch: Epoch, start: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Position, part and size of each result among some messages."""
    for position in range(start, end):
        for index, part in enumerate(epoch.messages[position].parts):
            if type(part) is ToolResult:
                yield position, index, DOCUMENTED.content(part)


# --------------------------------------------------------------- planted needles


class Needle(NamedTuple):
    """A loss that was planted, or a control that must not be found."""

    kind: NeedKind
    key: str
    place: Place
    """The block to cut."""
    call: int
    """The LLM call whose answer uses the key."""
    copy: Literal["none", "user", "result"]
    """Where else the key stands: nowhere (a loss, once the block is cut), or, as a control, in a
    message of the user's or in a result that is not to be cut."""
    kept: Place | None = None
    """The result with the copy."""


def plant(
    epoch: Epoch, seed: str, vocabulary: Vocabulary, *, most: int = 20
) -> tuple[Epoch, tuple[Needle, ...]]:
    """Plant strings that are nowhere else into results of an epoch, and uses of them into later answers.

    Nothing moves: texts become longer, and answers and results get further parts behind those they have.

    Args:
        epoch: any epoch; one without a result between two answers has no room for needles.
        seed: the same seed plants the same.
        vocabulary: for the names of tools that read and edit.
        most: how many needles at the most.
    """
    return _Planter(epoch, random.Random(seed), vocabulary).planted(most)  # noqa: S311


class _Planter:
    def __init__(self, epoch: Epoch, draw: random.Random, vocabulary: Vocabulary) -> None:
        self._epoch = epoch
        self._draw = draw
        self._tools = {action: name for name, action in vocabulary.files.items()}
        self._path = vocabulary.paths[0]
        self._messages = list(epoch.messages)
        self._answers = [
            (call.position, number)
            for number, call in enumerate(epoch.calls)
            if not call.failed and call.position < len(epoch.messages)
        ]
        self._results = [place for place in _places(epoch) if self._later(place.position)]
        self._users = [position for position, message in enumerate(epoch.messages) if message.role == "user"]

    def planted(self, most: int) -> tuple[Epoch, tuple[Needle, ...]]:
        """The epoch with up to so many needles, and what they are."""
        needles: list[Needle] = []
        kinds: list[NeedKind] = ["edit-regret", "unique-reference"]
        if "read" in self._tools and "edit" in self._tools:
            kinds.append("page-fault")
        for number in range(most if self._results else 0):
            place = self._draw.choice(self._results)
            answer, call = self._draw.choice(self._later(place.position))
            kind = self._draw.choice(kinds)
            if kind == "page-fault" and self._caller(place.position) is None:
                kind = "unique-reference"
            word = f"needle_{number}_{self._draw.getrandbits(48):012x}"
            if kind == "page-fault":
                needle = self._page(word, place, answer, call)
            else:
                needle = self._string(kind, word, place, answer, call)
            needles.append(needle)
        return msgspec.structs.replace(self._epoch, messages=tuple(self._messages)), tuple(needles)

    def _later(self, position: int) -> list[tuple[int, int]]:
        return [answer for answer in self._answers if answer[0] > position]

    def _string(self, kind: NeedKind, word: str, place: Place, answer: int, call: int) -> Needle:
        key = f"value = {word}()" if kind == "edit-regret" else word
        copy = self._draw.choice(("none", "none", "user", "result"))
        kept = None
        users = [position for position in self._users if position < answer]
        others = [one for one in self._results if one.position < answer and one != place]
        if copy == "user" and users:
            self._add(self._draw.choice(users), Text(f"mind this:\n{key}\n"))
        elif copy == "result" and others:
            kept = self._draw.choice(others)
            self._write(kept, key)
        else:
            copy = "none"
        self._write(place, key)
        if kind == "edit-regret":
            arguments = {self._path: f"{word[-6:]}.txt", "oldText": key, "newText": ""}
            self._add(answer, ToolCall(f"use_{word}", self._tools.get("edit", "edit"), arguments, ""))
        else:
            self._add(answer, Text(f"It is {key}."))
        return Needle(kind, key, place, call, copy, kept)

    def _page(self, word: str, place: Place, answer: int, call: int) -> Needle:
        """A read whose result stands beside the place's, and an edit of the file later on."""
        path = f"/{word}/a.txt"
        caller = self._caller(place.position)
        assert caller is not None
        self._add(caller, ToolCall(word, self._tools["read"], {self._path: path}, ""))
        self._add(place.position, ToolResult(word, self._tools["read"], (Text("one page\n" * 20),)))
        page = Place(place.position, len(self._messages[place.position].parts) - 1, TOOL_RESULT)
        self._add(answer, ToolCall(f"use_{word}", self._tools["edit"], {self._path: path}, ""))
        return Needle("page-fault", path, page, call, "none")

    def _caller(self, position: int) -> int | None:
        """The last answer before a position."""
        return next(
            (at for at in range(position - 1, -1, -1) if self._messages[at].role == "assistant"), None
        )

    def _write(self, place: Place, key: str) -> None:
        """A line of its own somewhere in a result's text."""
        message = self._messages[place.position]
        result = message.parts[place.part]
        assert isinstance(result, ToolResult)
        lines = result.text.split("\n")
        lines.insert(self._draw.randint(0, len(lines)), key)
        images = tuple(part for part in result.content if type(part) is not Text)
        content = (Text("\n".join(lines)), *images)
        parts: list[Part] = list(message.parts)
        parts[place.part] = msgspec.structs.replace(result, content=content)
        self._put(place.position, message, parts)

    def _add(self, position: int, part: Part) -> None:
        message = self._messages[position]
        self._put(position, message, [*message.parts, part])

    def _put(self, position: int, message: Message, parts: Sequence[Part]) -> None:
        self._messages[position] = msgspec.structs.replace(message, parts=tuple(parts))


def _places(epoch: Epoch) -> list[Place]:
    return [
        Place(position, index, TOOL_RESULT)
        for position, message in enumerate(epoch.messages)
        for index, part in enumerate(message.parts)
        if type(part) is ToolResult
    ]
