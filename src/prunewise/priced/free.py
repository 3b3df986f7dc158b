"""The free lane: what may be done to an output that has never been sent. It breaks no cache and no signature.

The model misses nothing by it: an output that stands in view already, byte for byte, becomes a pointer, and
what it leads to is held; and what is proven to be noise is left out where little else is there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from prunewise import condense, markers
from prunewise.tokens import text_tokens, utf16_length
from prunewise.transcript import Exchange

NOISE = "noise"
NOISY = "most of it is noise"
REPEAT = "repeated-output"
SAME = "it is the same as an earlier one"
FREE = (NOISE, REPEAT)
"""The strategies of this lane."""

_LEAST_NOISE = 200
"""What leaving noise out has to take out at least, in tokens."""
_MOST_LEFT = 0.5
"""At most this part of an output may stay where noise is left out."""


def without_noise(exchange: Exchange, reference: str) -> str | None:
    """The marker of an output without its noise, the rest as it is; None where there is little noise."""
    text = exchange.result.text
    left = condense.without_noise(text)
    if left is None or len(left) > _MOST_LEFT * len(text):
        return None
    marker = markers.without_noise(exchange.call.name, text, left, reference)
    return marker if text_tokens(text) - text_tokens(marker) >= _LEAST_NOISE else None


class InView:
    """Outputs by their text; those with images or files are in none."""

    def __init__(self, is_shown: Callable[[Exchange], bool]) -> None:
        """`is_shown` tells whether the output of an exchange goes out as it is."""
        self._is_shown = is_shown
        self._alike: dict[str, list[Exchange]] = {}

    def add(self, exchange: Exchange) -> None:
        """Note an output, which others may come to equal."""
        if not exchange.result.has_image and not exchange.result.files:
            self._alike.setdefault(exchange.result.text, []).append(exchange)

    def before(self, exchange: Exchange) -> Exchange | None:
        """The latest earlier output that is in view and has the text of this exchange's."""
        place = (exchange.result_position, exchange.result_part)
        alike = reversed(self._alike.get(exchange.result.text, ()))
        earlier = (one for one in alike if (one.result_position, one.result_part) < place)
        return next((one for one in earlier if self._is_shown(one)), None)

    def sources(self, pointers: Iterable[Exchange]) -> set[str]:
        """The calls whose outputs these pointers lead to. Where the host has sent a pointer itself back, the
        text that it stands for is not known: then those in view that are as long.
        """
        found: set[str] = set()
        lengths: set[int | None] = set()
        for pointer in pointers:
            source = self.before(pointer)
            if source is None:
                lengths.add(markers.characters_of(pointer.result.text))
            else:
                found.add(source.call.id)
        if lengths - {None}:
            for text, alike in self._alike.items():
                if utf16_length(text) in lengths:
                    found.update(one.call.id for one in alike if self._is_shown(one))
        return found
