"""A text of any length as lines for a terminal of some width, piece by piece, with nothing in it that a
terminal would obey.

A piece is wrapped when somebody looks at it, so that an output of many megabytes shows at once.
"""

from __future__ import annotations

import re

from rich.cells import cell_len, chop_cells

from prunewise.cli.console import one_line

_PIECE = 16_384
"""Characters that are wrapped at a time."""
_TAB = 4
_LINE_END = re.compile(r"\r\n?|\n")


class Wrapped:
    """A text, wrapped as far as it was asked for."""

    def __init__(self, text: str, width: int) -> None:
        """`width` is that of a line, in cells."""
        self.lines: list[str] = []
        """The lines that are there so far: none wider than `width`, and all safe to show."""
        self._text = text
        self._width = max(width, 2)
        self._at = 0

    @property
    def complete(self) -> bool:
        """Whether the lines are all there."""
        return self._at >= len(self._text)

    def reach(self, lines: int) -> None:
        """Wrap until there are so many lines, or the text is at its end."""
        while len(self.lines) < lines and not self.complete:
            self._wrap_next()

    def _wrap_next(self) -> None:
        end = min(self._at + _PIECE, len(self._text))
        if end < len(self._text):
            line_end = self._text.rfind("\n", self._at, end)
            end = line_end + 1 if line_end >= self._at else end
        piece = self._text[self._at : end]
        self._at = end
        if piece.endswith("\n"):
            piece = piece[:-1].removesuffix("\r")
        for line in _LINE_END.split(piece):
            self.lines += self._wrap(line)

    def _wrap(self, line: str) -> list[str]:
        safe = one_line(line.expandtabs(_TAB))
        if cell_len(safe) <= self._width:
            return [safe]
        if safe.isascii():
            return [safe[at : at + self._width] for at in range(0, len(safe), self._width)]
        return chop_cells(safe, self._width)
