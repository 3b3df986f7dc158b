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
    """Outputs by their text, images and files aside."""

    def __init__(self, is_shown: Callable[[Exchange], bool]) -> None:
        """`is_shown` tells whether the output of an exchange goes out as it is."""
        self._is_shown = is_shown
        self._alike: dict[str, list[Exchange]] = {}

    def add(self, exchange: Exchange) -> None:
        """Note an output, which others may come to equal."""
        if not exchange.result.has_image:
            self._alike.setdefault(exchange.result.text, []).append(exchange)

    def find(self, exchange: Exchange) -> Exchange | None:
        """The latest output before that of this exchange that is in view and has its text."""
        place = (exchange.result_position, exchange.result_part)
        alike = reversed(self._alike.get(exchange.result.text, ()))
        earlier = (one for one in alike if (one.result_position, one.result_part) < place)
        return next((one for one in earlier if self._is_shown(one)), None)
