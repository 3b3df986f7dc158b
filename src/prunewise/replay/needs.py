"""What a recorded session turned out to need: where the agent used something, and which text held it.

A need depends on the session alone, never on a policy or a marker. It says that one answer of the agent used
something of one output that stood, until then, only in text that pruning may remove. Whether a policy had
removed it by then is for `loss` to say, and how much evidence makes a need for a `Ruler`.
docs/explanation/information-loss.md has the definitions with their reasons.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from functools import lru_cache
from importlib.resources import files
from typing import Any, Literal, NamedTuple, cast

import msgspec

from prunewise import tools
from prunewise.recording import Epoch, LLMCall, Recording
from prunewise.tools import FileOperation, Vocabulary
from prunewise.transcript import (
    SHELL_OUTPUT,
    TOOL_INPUT,
    TOOL_RESULT,
    Kind,
    Message,
    Part,
    Shell,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)

NeedKind = Literal["unseen", "page", "old-line", "copied-words", "reference", "name", "line-number"]
KINDS: tuple[NeedKind, ...] = (
    "unseen",
    "page",
    "old-line",
    "copied-words",
    "reference",
    "name",
    "line-number",
)
"""Kinds of evidence, in the order in which a need holds them and a recall is put down to them."""

REFERENCE_LENGTH = 10
"""From so many characters on a name is a reference, and points at where it stood by itself."""
NAME_LENGTH = 4
"""The shortest name that counts, in characters."""
LINE_LENGTH = 12
"""The shortest line of an edit's old text that counts by itself, in characters."""
SHORT_LINE_LENGTH = 6
"""The shortest that counts where an old text has no longer one."""
RUN_LENGTH = 24
"""The shortest run of four copied words that counts, in characters."""
_LONGEST_WORD = 80
"""Longer runs of letters and digits are encoded data."""


class Place(NamedTuple):
    """A part of an epoch's message that pruning may remove: a result, a call's input, a shell output."""

    position: int
    part: int
    kind: Kind


Seen = tuple[str, str]
"""An output by its message's id and its text."""


class Evidence(msgspec.Struct, frozen=True, gc=False):
    """One thing that an answer used, and all places that held it."""

    kind: NeedKind
    key: str
    """What was used: a line, a run of words, a name, a number, a file's path; of `unseen` the output."""
    part: int
    """The part of the answer that uses it (the first that does)."""
    places: tuple[Place, ...]
    """Where the epoch holds it, in order; all uses of one key share them."""
    count: int
    """How many of the places came before the answer."""

    @property
    def sources(self) -> tuple[Place, ...]:
        """Everything that held it before the answer. There is at least one."""
        return self.places[: self.count]


class Need(msgspec.Struct, frozen=True, gc=False):
    """All that one answer used of what one place was the newest to hold."""

    call: int
    """The LLM call whose answer it is, counted from 0 within the epoch."""
    message: int
    """The position of the answer."""
    newest: Place
    evidence: tuple[Evidence, ...]
    """By kind, in the order of `KINDS`. There is at least one."""


class Ruler(msgspec.Struct, frozen=True):
    """How much evidence makes a need."""

    name: str
    weights: Mapping[NeedKind, float]
    """What each piece of evidence counts; together they must come to 1."""
    number_calls: int | None = None
    """For how many LLM calls after a cut the numbers of its lines count; None: for ever."""

    def suffices(self, evidence: Iterable[Evidence], age: int = 0) -> bool:
        """Whether this is enough, so many LLM calls after the newest place that held it went."""
        late = self.number_calls is not None and age >= self.number_calls
        weights, total = self.weights, 0.0
        for one in evidence:
            if not (late and one.kind == "line-number"):
                total += weights.get(one.kind, 0.0)
                if total >= 1:
                    return True
        return False

    def finds(self, need: Need) -> bool:
        """Whether an answer needs what its evidence stood in, should all of it go."""
        return self.suffices(need.evidence)


DETECTOR = Ruler(
    "detector",
    {"old-line": 1, "copied-words": 1, "reference": 1, "name": 0.5, "line-number": 1},
    number_calls=3,
)
"""The likeliest: tuned on outputs that were labelled by reading."""
UPPER = Ruler("upper bound", dict.fromkeys(KINDS, 1.0))
"""Errs on the side of need: any evidence is enough, and so is that no answer had seen the output."""


# --------------------------------------------------------------- references

_CHUNK = re.compile(rf"[A-Za-z0-9_./@+-]{{{NAME_LENGTH},}}")
_NO_WORD = re.compile(r"[^A-Za-z0-9_]+")
_HASH = re.compile(r"(?=[a-f]*[0-9])(?=[0-9]*[a-f])[0-9a-f]{7,64}")
_HASH_LENGTH = 7
_ID = re.compile(r"[A-Za-z0-9_.]+(?:-[A-Za-z0-9_.]+)+")
_LONGEST_ID = 40
_FILE = re.compile(r"([^/]+/[^/]*[A-Za-z0-9_-]\.[A-Za-z][A-Za-z0-9]{0,5})\.?")
_ESCAPES = ("\\n", "\\r", "\\t")


def names(text: str) -> set[str]:
    """All names in a text, rare or not.

    A name is a word of at least 4 letters, digits and underscores that is no ordinary word: it has an
    underscore inside, a digit, or capitals inside beside small letters; an identifier with hyphens and a
    digit (`ab-12.3`); the first 7 digits of a hexadecimal hash; or the last two names of a path to a file
    with an extension. A hash, or one of 10 characters and more, is a reference.
    """
    found: set[str] = set()
    for chunk in set(_CHUNK.findall(_unescaped(text))):
        found.update(_names_of(chunk))
    return found


def uncommon(name: str) -> bool:
    """Whether a name is rare: the shipped words of the trade are not."""
    return name not in _common()


@lru_cache(maxsize=1)
def _common() -> frozenset[str]:
    """Names that a model knows without having read them: of languages and their libraries, of formats, of
    tools and products, of the fields that every interface has, and round or made-up numbers.
    """
    listed = files("prunewise.replay").joinpath("common_names.txt").read_text("utf-8")
    return frozenset(listed.split())


def _names_of(chunk: str) -> tuple[str, ...]:
    """The names in a run of characters without a gap."""
    found = [_shortened(word) for word in _NO_WORD.split(chunk) if _is_name(word)]
    if "-" in chunk:
        found += [one for one in map(_trimmed, _ID.findall(chunk)) if _is_id(one)]
    if "/" in chunk:
        file = _FILE.fullmatch("/".join(chunk.rsplit("/", 2)[-2:]))
        if file is not None:
            found.append(file[1])
    return tuple(found)


def _is_name(word: str) -> bool:
    core = word.strip("_")
    if not NAME_LENGTH <= len(core) <= _LONGEST_WORD:
        return False
    if "_" in core or not core.isalpha():
        return True
    return not (core.islower() or core.isupper() or core[1:].islower())


def _trimmed(word: str) -> str:
    return word.strip("._")


def _is_id(word: str) -> bool:
    return NAME_LENGTH <= len(word) <= _LONGEST_ID and any(map(str.isdigit, word))


def _shortened(word: str) -> str:
    """A hash by its first digits, as far as people write it; any other word as it is."""
    return word[:_HASH_LENGTH] if _HASH.fullmatch(word) else word


def _kind_of(name: str) -> NeedKind:
    long = len(name.strip("_")) >= REFERENCE_LENGTH
    return "reference" if long or _HASH.fullmatch(name) else "name"


def _unescaped(text: str) -> str:
    """Escaped line ends and tabs, as JSON within an output has them, are white space."""
    if "\\" in text:
        for escape in _ESCAPES:
            text = text.replace(escape, "\n")
    return text


# --------------------------------------------------------------- copied words, numbers of lines

_AROUND = "`\"'(),;:.*[]{}<>"
"""What may stand around a word."""
_LINE_NUMBER = re.compile(r"^[ \t]*(\d{2,6})[ \t]*[:|\t\u2192-]|:(\d{2,6})\b|^@@ -(\d{2,6})", re.MULTILINE)
_NUMBER = re.compile(r"(?<![\w.])(\d{2,6})p?(?![\w.])")


def runs(text: str) -> set[str]:
    """All runs of four words in a text that come to at least 24 characters, one space between words.

    A word is what stands between white space, without the punctuation around it.
    """
    return {run for run in _runs(text) if len(run) >= RUN_LENGTH}


def _runs(text: str) -> Iterable[str]:
    """All runs of four words, however short."""
    bare = (word.strip(_AROUND) for word in _unescaped(text).split())
    words = [word for word in bare if word]
    return map(" ".join, zip(words, words[1:], words[2:], words[3:], strict=False))


def line_numbers(text: str) -> set[str]:
    """The numbers of lines that an output shows: before a line, behind a file's name, of a hunk."""
    return {one or two or three for one, two, three in _LINE_NUMBER.findall(text)}


# --------------------------------------------------------------- old texts of edits

_OLD_TEXT = frozenset({"old_string", "oldString", "oldText", "old_text", "old_str"})
"""What edit tools call the text to be replaced."""
_PATCH = "*** Begin Patch"
_SEARCH = re.compile(r"^<{5,9} SEARCH\b[^\n]*\n(.*?)^={5,9}$", re.MULTILINE | re.DOTALL)


def old_lines(arguments: Mapping[str, Any]) -> list[str]:
    """The lines of text that an edit says the file holds, trimmed.

    Each line of at least 12 characters; of an old text without such a line, its longest where that has
    at least 6. Edits are known by what they carry, not by their tool: an old text by its argument's
    name, a patch in the form of `apply_patch`, a search block.
    """
    found: dict[str, None] = {}
    for old in _old_texts(arguments):
        lines = [line.strip() for line in _unescaped(old).split("\n")]
        long = [line for line in lines if len(line) >= LINE_LENGTH]
        if not long:
            longest = max(lines, key=len)
            long = [longest] if len(longest) >= SHORT_LINE_LENGTH else []
        found.update(dict.fromkeys(long))
    return list(found)


def _old_texts(value: object, name: str = "") -> Iterator[str]:
    if isinstance(value, str):
        if name in _OLD_TEXT:
            yield value
        elif _PATCH in value:
            yield "\n".join(_patched(value))
        elif "<<< SEARCH" in value:
            yield from _SEARCH.findall(value)
    elif isinstance(value, Mapping):
        for key, inner in cast("Mapping[str, object]", value).items():
            yield from _old_texts(inner, key)
    elif isinstance(value, list):
        for inner in cast("list[object]", value):
            yield from _old_texts(inner, name)


def _patched(patch: str) -> Iterator[str]:
    """The lines that a patch expects: what it takes out, and what stands around it."""
    inside = False
    for line in patch.split("\n"):
        if line.startswith("*** "):
            inside = line.startswith("*** Update File")
        elif inside and line.startswith((" ", "-")):
            yield line[1:]


class Lines:
    """Finds lines in texts, whatever stands before them: white space, a line number, a file's name, the
    time, the sign of a diff. A text shows a line when one of its own ends with it.
    """

    __slots__ = ("_short", "_tails")

    def __init__(self, wanted: Iterable[str]) -> None:
        self._tails: dict[str, list[str]] = {}
        self._short: dict[str, list[str]] = {}
        for line in sorted(set(wanted)):
            tails, length = (
                (self._tails, LINE_LENGTH) if len(line) >= LINE_LENGTH else (self._short, SHORT_LINE_LENGTH)
            )
            tails.setdefault(line[-length:], []).append(line)

    def __bool__(self) -> bool:
        return bool(self._tails or self._short)

    def shown_by(self, text: str) -> set[str]:
        """Those of the lines that a text shows."""
        found: set[str] = set()
        tails, short = self._tails, self._short
        for line in _unescaped(text).split("\n"):
            line = line.rstrip()  # noqa: PLW2901
            candidates = tails.get(line[-LINE_LENGTH:])
            if candidates is not None:
                found.update(wanted for wanted in candidates if line.endswith(wanted))
            if short:
                candidates = short.get(line[-SHORT_LINE_LENGTH:])
                if candidates is not None:
                    found.update(wanted for wanted in candidates if line.endswith(wanted))
        return found


# --------------------------------------------------------------- the pass


def needs_of(recording: Recording) -> list[tuple[Need, ...]]:
    """Every need of a recording, epoch by epoch. What one epoch has seen is not unseen in the next."""
    found: list[tuple[Need, ...]] = []
    seen: set[Seen] = set()
    for epoch in recording.epochs:
        found.append(need_events(epoch, recording.vocabulary, cwd=recording.cwd, seen=seen))
        answered = [call.position for call in epoch.calls if _is_answered(call, epoch)]
        for message in epoch.messages[: max(answered, default=0)]:
            seen.update((message.id, text) for text in map(_output, message.parts) if text)
    return found


def need_events(
    epoch: Epoch,
    vocabulary: Vocabulary,
    rare: Callable[[str], bool] = uncommon,
    *,
    cwd: str | None = None,
    seen: Container[Seen] = (),
) -> tuple[Need, ...]:
    """Every need of an epoch, in the order of its answers.

    A need gathers the evidence that one answer used of one output. Evidence is what the answer wrote in text,
    thinking or arguments and what, until then, only places that may be pruned held:

    - `old-line`: a line of an edit's old text;
    - `copied-words`: a run of four words, 24 characters and more;
    - `reference`, `name`: a rare name of 10 characters and more, or a shorter one;
    - `line-number`: in arguments, the number of a line that an output showed;
    - `page`: a write to, or an edit of, a file that was read since its last change; held by the results of
      those reads, or the input of the write that made it;
    - `unseen`: the answer is the first to see the output. Outputs of equal text stand in for each other.

    There is none of what text that always stays has shown before: what the user, the system or the host
    wrote, and the agent's own text and thinking. What the agent wrote into the input of a call is a place
    like any other, since an input can be pruned too.

    Takes time in proportion to the epoch's text. An answer that failed, or is not recorded, uses nothing.

    Args:
        epoch: the messages and LLM calls.
        vocabulary: which tools read and change files.
        rare: whether a name is rare enough that its use points at where it stood.
        cwd: the directory that relative paths are resolved against.
        seen: the outputs that an answer of an earlier epoch has seen.
    """
    return _Pass(epoch, vocabulary, rare, cwd, seen).needs()


def _is_answered(call: LLMCall, epoch: Epoch) -> bool:
    at = call.position
    return not call.failed and at < len(epoch.messages) and epoch.messages[at].role == "assistant"


def _output(part: Part) -> str:
    """The text of an output; empty where there is none, or it is no output."""
    match part:
        case ToolResult() if part.has_text:
            return part.text
        case Shell() if part.sent and part.output.strip():
            return part.output
        case _:
            return ""


class _Use(NamedTuple):
    """What one part of an answer uses: keys by kind."""

    part: int
    keys: Mapping[NeedKind, list[str]]


class _Pass:
    """One walk through an epoch, with an index from keys to the places seen so far."""

    def __init__(
        self,
        epoch: Epoch,
        vocabulary: Vocabulary,
        rare: Callable[[str], bool],
        cwd: str | None,
        seen: Container[Seen],
    ) -> None:
        self._seen = seen
        self._epoch = epoch
        self._vocabulary = vocabulary
        self._cwd = cwd
        self._uses = [self._uses_of(call, rare) for call in epoch.calls]
        uses = [use.keys for answer in self._uses for use in answer]
        self._wanted: dict[NeedKind, set[str]] = {
            kind: {key for keys in uses for key in keys.get(kind, ())} for kind in KINDS
        }
        self._names = self._wanted["reference"] | self._wanted["name"]
        self._lines = Lines(self._wanted["old-line"])
        self._chunks: dict[str, tuple[str, ...]] = {}
        self._holding: dict[NeedKind, dict[str, list[Place] | None]] = {kind: {} for kind in KINDS}
        """Where each key stands; None once text that always stays has shown it."""
        self._open: dict[str, tuple[FileOperation, Place]] = {}
        self._found: dict[tuple[int, Place], list[tuple[NeedKind, str, int, list[Place], int]]] = {}
        """By call and newest place."""

    def needs(self) -> tuple[Need, ...]:
        """Walk, and finish what was found."""
        read = 0
        unseen: list[str] = []
        for number, call in enumerate(self._epoch.calls):
            for position in range(read, call.position):
                unseen += self._take(position)
            read = max(read, call.position)
            if _is_answered(call, self._epoch):
                for text in unseen:
                    self._note(number, "unseen", text, 0)
                unseen.clear()
                self._ask(number)
        shared: dict[int, tuple[Place, ...]] = {}
        made: list[Need] = []
        for (number, newest), found in sorted(self._found.items(), key=lambda item: item[0][0]):
            evidence: list[Evidence] = []
            for kind, key, part, places, count in sorted(found, key=lambda one: KINDS.index(one[0])):
                frozen = shared.setdefault(id(places), ())
                if len(frozen) != len(places):
                    frozen = shared[id(places)] = tuple(places)
                evidence.append(Evidence(kind, key, part, frozen, count))
            made.append(Need(number, self._epoch.calls[number].position, newest, tuple(evidence)))
        return tuple(made)

    def _uses_of(self, call: LLMCall, rare: Callable[[str], bool]) -> list[_Use]:
        if not _is_answered(call, self._epoch):
            return []
        uses: list[_Use] = []
        for index, part in enumerate(self._epoch.messages[call.position].parts):
            text = _written(part)
            if text is None:
                continue
            keys: dict[NeedKind, list[str]] = {"copied-words": sorted(runs(text))}
            for name in sorted(names(text)):
                if rare(name):
                    keys.setdefault(_kind_of(name), []).append(name)
            if type(part) is ToolCall:
                keys["old-line"] = old_lines(part.arguments)
                keys["line-number"] = sorted(set(_NUMBER.findall(text)))
                operation = tools.file_operation(self._vocabulary, part.name, part.arguments, self._cwd)
                if operation is not None and operation.action != "read":
                    keys["page"] = [operation.path]
            uses.append(_Use(index, keys))
        return uses

    def _ask(self, number: int) -> None:
        """What an answer uses, against all that came before it."""
        asked: set[tuple[NeedKind, str]] = set()
        for use in self._uses[number]:
            for kind, keys in use.keys.items():
                for key in keys:
                    if (kind, key) not in asked:
                        asked.add((kind, key))
                        self._note(number, kind, key, use.part)

    def _note(self, number: int, kind: NeedKind, key: str, part: int) -> None:
        places = self._holding[kind].get(key)
        if places:
            self._found.setdefault((number, places[-1]), []).append((kind, key, part, places, len(places)))

    def _take(self, position: int) -> Iterator[str]:
        """One message comes into view. Gives its outputs that the next answer is the first to see."""
        message: Message = self._epoch.messages[position]
        for index, part in enumerate(message.parts):
            match part:
                case Text() | Thinking():
                    self._show(part.text, None)
                    continue
                case ToolCall():
                    place = Place(position, index, TOOL_INPUT)
                    self._show(_strings(part.arguments), place)
                    operation = tools.file_operation(self._vocabulary, part.name, part.arguments, self._cwd)
                    if operation is not None:
                        self._open[part.id] = operation, place
                case ToolResult():
                    place = Place(position, index, TOOL_RESULT)
                    self._show(part.text, place)
                    self._operated(part, place)
                case Shell() if part.sent:
                    place = Place(position, index, SHELL_OUTPUT)
                    self._show(part.command, None)
                    self._show(part.output, place)
                case _:
                    continue
            text = _output(part)
            if text:
                self._hold("unseen", (text,), place)
                if (message.id, text) not in self._seen:
                    yield text

    def _operated(self, result: ToolResult, place: Place) -> None:
        """What a finished call says of the pages of its file."""
        operation, called = self._open.pop(result.call_id, (None, place))
        if operation is None or result.is_error:
            return
        pages = self._holding["page"]
        if operation.action == "write":
            pages[operation.path] = [called]
        elif operation.action == "edit":
            pages.pop(operation.path, None)
        elif result.has_text and not result.text.startswith(self._vocabulary.unchanged_stubs or ("\0",)):
            self._hold("page", (operation.path,), place)

    def _show(self, text: str, place: Place | None) -> None:
        """A text comes into view: at a place that may be pruned, or (None) for good."""
        if self._lines:
            self._hold("old-line", self._lines.shown_by(text), place)
        if self._wanted["copied-words"]:
            self._hold("copied-words", self._wanted["copied-words"].intersection(_runs(text)), place)
        if self._wanted["line-number"]:
            output = place is not None and place.kind != TOOL_INPUT
            shown = line_numbers(text) if output else set(_NUMBER.findall(text))
            self._hold("line-number", shown & self._wanted["line-number"], place)
        if self._names:
            found: set[str] = set()
            for chunk in set(_CHUNK.findall(_unescaped(text))):
                wanted = self._chunks.get(chunk)
                if wanted is None:
                    wanted = tuple(one for one in _names_of(chunk) if one in self._names)
                    self._chunks[chunk] = wanted
                if wanted:
                    found.update(wanted)
            for name in found:
                self._hold(_kind_of(name), (name,), place)

    def _hold(self, kind: NeedKind, keys: Iterable[str], place: Place | None) -> None:
        holding = self._holding[kind]
        for key in keys:
            if place is None:
                holding[key] = None
                continue
            places = holding.setdefault(key, [])
            if places is not None:
                places.append(place)


def _written(part: Part) -> str | None:
    """What the agent wrote in a part of an answer."""
    match part:
        case Text() | Thinking():
            return part.text
        case ToolCall():
            return _strings(part.arguments)
        case _:
            return None


def _strings(value: object) -> str:
    """All texts and numbers among arguments, each on lines of its own."""
    return "\n".join(_leaves(value))


def _leaves(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for inner in cast("Mapping[str, object]", value).values():
            yield from _leaves(inner)
    elif isinstance(value, list):
        for inner in cast("list[object]", value):
            yield from _leaves(inner)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield str(value)


# --------------------------------------------------------------- listing

_SHOWN = 80
"""How much of a key is listed, in characters."""


def describe(need: Need, epoch: Epoch) -> dict[str, Any]:
    """A need as a row of a listing: the same for the same session, whatever the policy.

    `call` counts the epoch's LLM calls from 0, `message` is the answer's id, `newest` is where what it used
    stood last, `kind`, `part` and `key` are of the first evidence, `evidence` counts it by kind,
    `upperBound` and `detector` say whether it is enough for them.
    """
    first, newest = need.evidence[0], need.newest
    counts = Counter(one.kind for one in need.evidence)
    return {
        "call": need.call,
        "kind": first.kind,
        "message": epoch.messages[need.message].id,
        "part": first.part,
        "key": first.key if len(first.key) <= _SHOWN else first.key[: _SHOWN - 1] + "…",
        "evidence": {kind: counts[kind] for kind in KINDS if counts[kind]},
        "upperBound": UPPER.finds(need),
        "detector": DETECTOR.finds(need),
        "newest": {"message": epoch.messages[newest.position].id, "part": newest.part, "kind": newest.kind},
    }
