"""What the output of a read holds: which lines of its file, counted in the output, and whether one output
holds all that another one does.
"""

from __future__ import annotations

import re

import msgspec

from prunewise.tools import FileOperation, Vocabulary, lines_asked
from prunewise.transcript import Exchange

_NUMBERED = re.compile(r"[ \t]*L?(\d{1,9})(?:→|\t|\| ?|[:.] ?)(.*)", re.DOTALL)
_FRAME = re.compile(r"\s*(?:<(?:file|content)>|<(?:path|type)>.*</(?:path|type)>|\[File: .*\])?")
"""What some hosts put before the lines; and empty lines."""
_CLOSING = re.compile(
    r"\[(?:Showing lines \d+-\d+ of \d+.*|\d+ more lines in file.*)\]"
    r"|\((?:End of file|Showing lines|File has more lines|Output capped).*\)|</(?:file|content)>|\s*"
)
"""A line behind the last one of the file that is the host's."""
_HEADER = re.compile(
    r"\A(?:(?:Chunk ID|Exit code|Wall time|Original token count): .*\n|Process exited with code .*\n)+"
    r"Output:\n"
)
"""What Codex puts before the output of a command."""
_CUT = re.compile(
    r"truncat|omitted|elided|snipp|clipped|abbreviated|persisted|preview|too (?:large|long|big)|full output"
    r"|saved to|left out|limit reached|exceed|incomplete|partial|same as|identical|unchanged|no changes?\b"
    r"|not (?:been )?(?:modified|changed)|\balready (?:read|in|shown|seen)\b"
    r"|\b(?:more|remaining|additional|other|further|hidden|skipped)"
    r" (?:lines?|rows?|characters?|chars?|bytes?|content)\b"
    r"|\b(?:lines?|characters?|chars?|bytes?) (?:more|remain\w*|skipped|hidden|removed|above|below)\b"
    r"|not shown"
    r"|\bshowing (?:lines?|rows?|the|only|first|last|\d)"
    r"|\b(?:use|with) (?:the )?(?:offset|start_line|view_range)"
    r"|\bof \d+ (?:total )?(?:lines|rows|characters|bytes)|\blines? \d+ ?(?:-|to|\u2013) ?\d+ of\b"
    r"|^(?:[^\w\n]|_)*?(?:\.\.\.|…)(?:[^\w\n]|_)*$|(?:\.\.\.|…)$",
    re.IGNORECASE | re.MULTILINE,
)
"""Signs that an output is not all it might be. Files hold such lines too: then less is claimed."""
_COUNTABLE = "(?:line|row|char|byte|content)"
_LEFT = "(?:more|remain|skipped|hidden|removed|above|below)"
_HINTS = tuple(
    re.compile(hint)
    for hint in (
        "truncat", "omitted", "elided", "snipp", "clipped", "abbreviated", "persisted", "preview",
        "too (?:l|big)", "full output", "saved to", "left out", "limit reached", "exceed", "incomplete",
        "partial", "same as", "identical", "unchanged", "no change", "not (?:been|modified|changed|shown)",
        "already (?:read|in|shown|seen)", f"more {_COUNTABLE}", f"remaining {_COUNTABLE}",
        f"additional {_COUNTABLE}", f"other {_COUNTABLE}", f"further {_COUNTABLE}", f"hidden {_COUNTABLE}",
        f"skipped {_COUNTABLE}", f"lines? {_LEFT}", f"char\\w* {_LEFT}", f"bytes? {_LEFT}", "showing ",
        "use (?:the )?(?:offset|start_|view_)", "with (?:the )?(?:offset|start_|view_)",
        "of \\d+ (?:total |lines|rows|char|byte)", "lines? \\d+ ?(?:-|to|\u2013) ?\\d+ of", "\\.\\.\\.",
        "\u2026",
    )
)  # fmt: skip
"""Each sign holds one of these. Their beginnings are fixed, so that they are found many times as fast."""
_LONGEST = 1_000_000
"""The most characters that are read for such signs."""


def is_cut(text: str) -> bool:
    """Whether anything in an output says that a part of it was left out; one that is too long to be read for
    that may say it.
    """
    if len(text) > _LONGEST:
        return True
    text = text.lower()
    hints = [hint for hint in _HINTS if hint.search(text) is not None]
    if not hints:
        return False
    return any(
        _CUT.search(line) is not None
        for line in dict.fromkeys(text.split("\n"))
        if any(hint.search(line) is not None for hint in hints)
    )


class Holding(msgspec.Struct, frozen=True):
    """What one output holds of a file."""

    raw: str
    """Its lines as they stand, with a line feed before each and behind the last."""
    bare: str
    """Its lines without the host's line numbers."""
    keyed: str
    """Its lines with their numbers, however the host writes them; empty where it numbers none."""
    firsts: tuple[float, ...]
    """The numbers that its first line may have, in order; none where nothing is known of them."""
    count: int
    """How many lines there are."""
    text: str
    """The whole output."""
    is_open: bool
    """Whether it goes on to the end of the file, as far as its host tells."""

    @property
    def is_cut(self) -> bool:
        """Whether anything between its lines says that some were left out. Reads them all: ask it last."""
        return is_cut(self.raw[1:-1])

    @property
    def is_part(self) -> bool:
        """Whether anything in it says that it is not all that was asked for. Reads it all: ask it last."""
        return is_cut(self.text)

    @property
    def least(self) -> tuple[float, float]:
        """The first and the last line that it certainly holds."""
        return self.firsts[-1], self.firsts[0] + self.count - 1

    @property
    def most(self) -> tuple[float, float]:
        """The first and the last line that it may hold."""
        return self.firsts[0], self.firsts[-1] + self.count - 1

    def contains(self, other: Holding) -> bool:
        """Whether all lines of the other stand in it, one behind the other, and are not known to be other
        lines of the file.
        """
        if self.firsts and other.firsts and not _covers(self.most, other.least):
            return False
        if self.keyed and other.keyed:
            return other.keyed in self.keyed
        return other.bare in self.bare or other.raw in self.raw

    def takes_over(self, other: Holding) -> bool:
        """Whether it stands for all that the other holds: by the numbers of their lines, or since it goes on
        to the end of the file.
        """
        if not self.firsts:
            return False
        if not other.firsts:
            is_taken = self.is_open and self.firsts == (1,) and other.count <= self.count
            return is_taken and not self.is_part
        if self.is_open and self.least[0] <= other.most[0] <= self.least[1]:
            return not self.is_part
        return _covers(self.least, other.most) and not self.is_part and not other.is_cut


def _covers(span: tuple[float, float], other: tuple[float, float]) -> bool:
    return span[0] <= other[0] and span[1] >= other[1]


def holding(exchange: Exchange, operation: FileOperation, vocabulary: Vocabulary) -> Holding:
    """What the output of a read holds; `operation` says which file and which lines were asked for."""
    text = exchange.result.text
    if exchange.operation is None:
        text = _HEADER.sub("", text)
        firsts, is_bounded = (operation.first,), True
    else:
        firsts, is_bounded = lines_asked(vocabulary, exchange.call.arguments)
    rows = text.split("\n")
    while rows and _CLOSING.fullmatch(rows[-1]):
        rows.pop()
    numbers, bare = _numbered(rows)
    if numbers and (len(bare) < len(numbers) or numbers[0] not in firsts):
        numbers, bare, firsts = [], rows, ()  # the file's own, or not the lines that were asked for
    count = len(numbers) or len(rows)
    most = vocabulary.longest_read
    is_open = (
        not is_bounded
        and not numbers  # no host that tells this numbers lines: another tool has the name
        and most is not None
        and 0 < len(rows) < most[0]
        and len(text.encode("utf-8", "replace")) < most[1]
    )
    return Holding(
        _lines(rows),
        _lines(bare),
        _lines([f"{number}\t{line}" for number, line in zip(numbers, bare, strict=True)]) if numbers else "",
        (numbers[0],) if numbers else firsts,
        count,
        text,
        is_open,
    )


def _lines(rows: list[str]) -> str:
    return "\n".join(("", *rows, ""))


def _numbered(rows: list[str]) -> tuple[list[int], list[str]]:
    """The line numbers that a host put before the lines, and the lines without them; numbers without lines
    where a later row has another number, or none.
    """
    at = 0
    while at < len(rows) and _FRAME.fullmatch(rows[at]) and not _NUMBERED.fullmatch(rows[at]):
        at += 1
    numbers: list[int] = []
    bare: list[str] = []
    for row in rows[at:]:
        found = _NUMBERED.fullmatch(row)
        if found is None or (numbers and int(found[1]) != numbers[-1] + 1):
            return (numbers, []) if len(numbers) > 1 else ([], rows)
        numbers.append(int(found[1]))
        bare.append(found[2])
    return (numbers, bare) if numbers else ([], rows)
