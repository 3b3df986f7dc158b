"""What goes out: the host's messages with the engine's edits in place, each edited message made once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from prunewise.engine import Engine
from prunewise.formats import Format, Native
from prunewise.transcript import Edit


class Projection:
    """The edits in the last request, and the messages that were made with them."""

    def __init__(self, format: Format) -> None:
        self.edits: tuple[Edit, ...] = ()
        """By position."""
        self._format = format
        self._made: dict[int, Native] = {}
        self._sent = 0
        self._before: tuple[tuple[Edit, ...], int] = ((), 0)
        """The edits of the request before, and how many messages it had."""
        self._broken = False

    def advance(self, engine: Engine, natives: Sequence[Native], touched: Sequence[int]) -> bool:
        """Take in what the engine edits in the next request; at the positions `touched` that may be
        another thing than before. Whether anything that had gone out before is different now, so that the
        cached prefix breaks.
        """
        self._before = (self.edits, self._sent)
        sent, self._sent = self._sent, len(natives)
        self._broken = False
        if not touched:
            return False
        before = self.edits
        self.edits = tuple(edits[part] for _, edits in sorted(engine.edits.items()) for part in sorted(edits))
        self._broken = min(touched) < sent and _ahead_of(before, sent) != _ahead_of(self.edits, sent)
        for position in touched:
            edits = engine.edits.get(position)
            if edits is None:
                self._made.pop(position, None)
            else:
                in_order = [edits[part] for part in sorted(edits)]
                self._made[position] = self._format.apply(natives[position], in_order)
        return self._broken

    def messages(self, natives: Sequence[Native]) -> list[Native]:
        """The messages to send: the same objects, but for those that are edited."""
        outgoing = list(natives)
        for position, message in self._made.items():
            outgoing[position] = message
        return outgoing

    def make_again(self, engine: Engine, positions: Iterable[int]) -> None:
        """Have those of these messages that are edited made again: the host tells them in another shape."""
        engine.touch(self._made.keys() & set(positions))

    def take_back(self, engine: Engine) -> bool:
        """The last request has not gone out: go on from the one before. Whether it would have broken the
        cached prefix.
        """
        broken, self._broken = self._broken, False
        self._go_on_from(engine, *self._before)
        return broken

    def sent_whole(self, engine: Engine) -> bool:
        """A request has gone out without edits; whether that broke the cached prefix."""
        broken = bool(self.edits)
        self._go_on_from(engine, (), self._sent)
        return broken

    def _go_on_from(self, engine: Engine, edits: tuple[Edit, ...], sent: int) -> None:
        engine.touch(edit.position for edit in (*self.edits, *edits))
        self.edits, self._sent = edits, sent
        self._before = (edits, sent)

    def start_over(self, engine: Engine, kept: int) -> None:
        """Go on with a fresh engine over the first `kept` messages: nothing that was made is used again."""
        self.edits = tuple(edit for edit in self.edits if edit.position < kept)
        engine.touch(edit.position for edit in self.edits)
        self._made.clear()
        self._sent = min(self._sent, kept)
        before, sent = self._before
        self._before = (tuple(edit for edit in before if edit.position < kept), min(sent, kept))


def _ahead_of(edits: Sequence[Edit], position: int) -> list[Edit]:
    return [edit for edit in edits if edit.position < position]
