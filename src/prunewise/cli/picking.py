"""Which parts a person means: by call id, by the beginning of one, or by a number of the list shown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import msgspec

from prunewise.errors import RefusedError
from prunewise.ledger import Target
from prunewise.listing import Listed
from prunewise.transcript import TOOL_INPUT, TOOL_RESULT, ToolKind

_SHORTEST = 10
_MOST_NAMED = 3
_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")


class Choice(msgspec.Struct, frozen=True):
    """What is to be done, and what a person asked for that is so already."""

    prune: list[Listed] = []
    restore: list[Target] = []
    settled: list[str] = []
    """One line each: what was asked for, and why there is nothing to do."""


def short_ids(ids: Iterable[str]) -> dict[str, str]:
    """For each id the shortest beginning that no other one has, though not too short to tell something."""
    ordered = sorted(set(ids))
    shared = [0] * (len(ordered) + 1)
    for index in range(1, len(ordered)):
        shared[index] = _common(ordered[index - 1], ordered[index])
    return {
        one: one[: max(_SHORTEST, shared[index] + 1, shared[index + 1] + 1)]
        for index, one in enumerate(ordered)
    }


def _common(one: str, other: str) -> int:
    """How many characters two texts begin with alike."""
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), len(one))


class Picker:
    """The parts of one conversation, by whatever a person calls them."""

    def __init__(self, listed: Sequence[Listed], standing: Iterable[Target]) -> None:
        """`standing` are the targets of every decision that stands, whether its exchange is sent or not."""
        self._listed = {one.target: one for one in listed}
        self._standing = dict.fromkeys(standing)
        self._ids = {call for call, _ in (*self._listed, *self._standing)}

    def choose(self, prune: Iterable[str], restore: Iterable[str], kind: ToolKind | None) -> Choice:
        """What to do, where calls are named by their ids.

        `kind` is what of an exchange is meant; None for the result, and of one to restore for all of it.

        Raises:
            RefusedError: an id is not known or not clear, or what it names cannot be pruned.
        """
        choice = Choice([], [], [])
        to_prune = dict.fromkeys(self._id(given) for given in prune)
        to_restore = dict.fromkeys(self._id(given) for given in restore)
        for call in to_prune:
            if call in to_restore:
                raise RefusedError(f"{call}: is to be pruned and restored at once")
            self._add_prune(choice, self._part(call, kind or TOOL_RESULT))
        for call in to_restore:
            targets = [target for target in self._standing if target[0] == call and kind in (None, target[1])]
            choice.restore.extend(targets)
            if not targets:
                choice.settled.append(f"{call}: is not pruned")
        return choice

    def toggle(self, parts: Iterable[Listed]) -> Choice:
        """What to do, where parts are picked from the list: restore what is pruned, prune the rest."""
        choice = Choice([], [], [])
        for part in parts:
            if part.status == "pruned":
                choice.restore.append(part.target)
            else:
                self._add_prune(choice, part)
        return choice

    def _add_prune(self, choice: Choice, part: Listed) -> None:
        call = part.exchange.call.id
        if part.decision is not None and part.status == "pruned":
            how = "by hand" if part.decision.source == "manual" else f"by {part.decision.strategy_id}"
            choice.settled.append(f"{call}: is pruned already, {how}")
        elif part.refusal is not None:
            raise RefusedError(f"{call}: {part.refusal}")
        else:
            choice.prune.append(part)

    def _part(self, call: str, kind: ToolKind) -> Listed:
        part = self._listed.get((call, kind))
        if part is not None:
            return part
        if kind == TOOL_INPUT and (call, TOOL_RESULT) in self._listed:
            raise RefusedError(f"{call}: did not fail; only the input of a failed call can be pruned")
        raise RefusedError(f"{call}: its exchange is not sent any more")

    def _id(self, given: str) -> str:
        """The call id that is meant."""
        if given in self._ids:
            return given
        found = sorted(call for call in self._ids if given and call.startswith(given))
        if len(found) == 1:
            return found[0]
        if not found:
            raise RefusedError(f"{given or 'an empty id'}: no completed call with this id on this branch")
        named = ", ".join(found[:_MOST_NAMED]) + (", ..." if len(found) > _MOST_NAMED else "")
        raise RefusedError(f"{given}: {len(found)} call ids begin so: {named}")


def numbers(text: str, most: int) -> list[int]:
    """The numbers in a person's answer, such as `3 5-7`, each from 1 to `most`, in order and once.

    Raises:
        ValueError: the answer is something else; the message says what is expected.
    """
    picked: set[int] = set()
    for piece in text.replace(",", " ").split():
        found = _RANGE.fullmatch(piece)
        first, last = (int(found[1]), int(found[2] or found[1])) if found else (0, 0)
        if not 1 <= first <= last <= most:
            message = f"{piece} is no number from 1 to {most}, and no range such as 3-5"
            raise ValueError(message)
        picked.update(range(first, last + 1))
    return sorted(picked)
