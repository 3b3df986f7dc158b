"""Known losses, planted into any epoch, by which the measure of loss is proved."""

import random
from collections.abc import Sequence
from typing import Literal, NamedTuple

import msgspec

from prunewise.recording import Epoch
from prunewise.replay.needs import NeedKind, Place
from prunewise.tools import Vocabulary
from prunewise.transcript import TOOL_RESULT, Message, Part, Text, ToolCall, ToolResult


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
    return _Planter(epoch, random.Random(seed), vocabulary).planted(most)


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
        kinds: list[NeedKind] = ["old-line", "reference"]
        if "read" in self._tools and "edit" in self._tools:
            kinds.append("page")
        for number in range(most if self._results else 0):
            place = self._draw.choice(self._results)
            answer, call = self._draw.choice(self._later(place.position))
            kind = self._draw.choice(kinds)
            if kind == "page" and self._caller(place.position) is None:
                kind = "reference"
            word = f"needle_{number}_{self._draw.getrandbits(48):012x}"
            if kind == "page":
                needle = self._page(word, place, answer, call)
            else:
                needle = self._string(kind, word, place, answer, call)
            needles.append(needle)
        return msgspec.structs.replace(self._epoch, messages=tuple(self._messages)), tuple(needles)

    def _later(self, position: int) -> list[tuple[int, int]]:
        return [answer for answer in self._answers if answer[0] > position]

    def _string(self, kind: NeedKind, word: str, place: Place, answer: int, call: int) -> Needle:
        key = f"value = {word}()" if kind == "old-line" else word
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
        if kind == "old-line":
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
        return Needle("page", path, page, call, "none")

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
