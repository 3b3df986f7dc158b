"""One session laid out for a person to prune and restore by hand: its parts, and what they are called.

Only reads. What a person decides goes into the file by `prunewise.cli.change`.
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from prunewise import ledger
from prunewise.cli.console import cell
from prunewise.cli.picking import Picker
from prunewise.cli.sessions import Conversation, converse, digest
from prunewise.listing import Listed
from prunewise.pruner import Pruner
from prunewise.transcript import TOOL_INPUT

Stamp = tuple[int, int] | None
"""By what a file is known to be as it was: its size and when it was changed; None where it is not there."""


class Desk:
    """One conversation with all of its parts laid out."""

    def __init__(self, conversation: Conversation, stamp: Stamp = None) -> None:
        """`stamp` is that of the file, taken before it was read."""
        self.conversation = conversation
        self.stamp = stamp
        self.pruner: Pruner = conversation.pruner()
        self.parts = self.pruner.listing()
        self.by_target = {one.target: one for one in self.parts}
        self.shown = [one for one in self.parts if one.refusal is None]
        """What can be pruned or restored."""
        standing = ledger.fold(conversation.branch.ledger()).standing
        self.picker = Picker(self.parts, standing)
        self.gone = [target for target in standing if target not in self.by_target]
        """The targets of decisions that stand for what is not sent any more."""

    @classmethod
    def of(cls, path: Path, *, settings: Path | None = None, cwd: Path | None = None) -> Desk:
        """A session by its path, as `converse` opens it.

        Raises:
            InputError: it is not a pi session.
            SettingsError: the settings were named, and cannot be read.
        """
        stamp = stamp_of(path)
        with _without_collector():
            return cls(converse(path, settings=settings, cwd=cwd), stamp)

    def again(self) -> Desk:
        """The same session as its file is now.

        Raises:
            InputError: the file is gone, or is not a pi session any more.
        """
        conversation = self.conversation
        return Desk.of(conversation.path, settings=conversation.settings, cwd=conversation.given_cwd)

    def what(self, part: Listed) -> str:
        """What a part is, in a few words."""
        about = digest(part.exchange, self.conversation.cwd)
        return cell(f"input of: {about}" if part.kind == TOOL_INPUT else about)

    def left_out(self) -> list[str]:
        """Why parts are not shown, each reason with how many there are; the commonest first."""
        reasons = Counter(one.refusal for one in self.parts if one.refusal is not None)
        return [f"{many:,}: {reason}" for reason, many in reasons.most_common()]

    def document(self) -> dict[str, Any]:
        """The list as JSON."""
        return {"exchanges": [_as_json(one) for one in self.shown], "leftOut": self.left_out()}


@contextmanager
def _without_collector() -> Generator[None]:
    """Do not look for garbage: a session is very many objects, none of which can be given up yet."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def stamp_of(path: Path) -> Stamp:
    """What a file is known by now."""
    try:
        status = path.stat()
    except OSError:
        return None
    return (status.st_size, status.st_mtime_ns)


def _as_json(part: Listed) -> dict[str, Any]:
    decision = part.decision
    return {
        "call": part.exchange.call.id,
        "kind": part.kind,
        "tool": part.exchange.call.name,
        "arguments": part.exchange.call.arguments,
        "position": part.position,
        "tokens": part.tokens,
        "tokensRemoved": part.tokens_removed,
        "age": part.age,
        "status": part.status,
        "source": None if decision is None else decision.source,
        "strategy": None if decision is None else decision.strategy_id,
        "reason": None if decision is None else decision.reason,
    }
