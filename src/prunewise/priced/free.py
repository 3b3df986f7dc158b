"""The free lane: what may be done to an output that has never been sent.

It breaks no cache and no signature. A large output keeps its ends, lines of trouble and an index; one that
is in view already, byte for byte, becomes a pointer, and what a pointer leads to is held.
"""

from __future__ import annotations

from collections.abc import Callable

from prunewise import condense, markers
from prunewise.priced.gist import SEARCH, of_search
from prunewise.settings import Priced
from prunewise.transcript import Exchange

TRIM = "birth-trim"
REPEAT = "repeated-output"

TRIM_GAIN = 200
"""What shortening an output has to take out at least, in tokens."""
NOT_SHORTENED = frozenset({"read", "change"})
"""Sorts of output that are never shortened."""
_TROUBLE_LINES = 10


def shortened(exchange: Exchange, settings: Priced, reference: str, sort: str, *, code: int | None) -> str:
    """The marker of a large output: how its command ended, where that is known, its ends and lines of
    trouble, and an index of the names in the rest.

    Of a search the files take the place of trouble: what its lines tell of is what was searched for.
    """
    text = exchange.result.text
    room = settings.index_tokens
    files = of_search(text, room) if sort == SEARCH else ""
    kept, _ = condense.ends(text, settings.trim_lines, 0 if files else _TROUBLE_LINES)
    if files:
        kept.append(f"[{files}]")
        room -= -(-len(files) // condense.CHARACTERS_PER_TOKEN)
    shown = "\n".join(kept)
    index = condense.index(text, room, condense.names(shown))
    return markers.trimmed(exchange.call.name, markers.extent(text, code), shown, index, reference)


class InView:
    """Outputs by their text, and those of them that pointers lead to."""

    def __init__(self, is_shown: Callable[[Exchange], bool]) -> None:
        """`is_shown` tells whether the output of an exchange goes out as it is."""
        self._is_shown = is_shown
        self._alike: dict[str, list[Exchange]] = {}
        self._held: set[str] = set()

    def add(self, exchange: Exchange) -> None:
        """Note an output that others may come to equal."""
        self._alike.setdefault(exchange.result.text, []).append(exchange)

    def find(self, text: str) -> Exchange | None:
        """The latest output that is in view and has this text."""
        return next((one for one in reversed(self._alike.get(text, ())) if self._is_shown(one)), None)

    def hold(self, exchange: Exchange | None) -> None:
        """Something leads to this output: it stays."""
        if exchange is not None:
            self._held.add(exchange.call.id)

    def holds(self, call_id: str) -> bool:
        """Whether the output of a call has to stay."""
        return call_id in self._held
