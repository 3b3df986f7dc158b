"""Session files of one JSON object a line, as values: every object with the number of its line.

Knows lines, and what goes wrong with them. Knows nothing of what the objects mean. Lines end at line
feeds and at nothing else: U+2028 and its like are text. Nothing here raises, whatever the bytes hold.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import PurePath
from typing import Any, cast

import msgspec

from prunewise.stores.json_lines import Record, recover

_decode = msgspec.json.Decoder().decode
_BROKEN_ESCAPE = re.compile(rb'\\(?:(["\\/bfnrt]|u[0-9a-fA-F]{4})|)')
"""A backslash of a JSON text: with its first group what JSON allows behind it, without that broken."""
_BLANK = b" \t\r\n"
_MILLISECONDS = 1e11
"""Numbers from here on are no seconds: those would lie in the year 5138."""
_LAST_INSTANT = 8.64e15
"""In milliseconds: the last that JavaScript's dates reach."""


class Lines:
    """The objects of one file, and the warnings that reading it gave.

    Iterating it gives pairs of line number (from 1) and object; objects glued together on one line
    share its number.

    `is_record` tells by an object's fields that it is one that the format writes; it is asked only
    where a torn line might hold a complete object behind the torn one.
    """

    __slots__ = ("_data", "_is_record", "source", "warnings")

    def __init__(self, source: str, data: bytes, is_record: Callable[[Record], bool]) -> None:
        self.source = source
        self.warnings: list[str] = []
        self._data = data
        self._is_record = is_record

    def warn(self, number: int, what: str) -> None:
        """Add a warning about a line: what is wrong, and what was done."""
        self.warnings.append(f"{self.source}:{number}: {what}")

    def __iter__(self) -> Iterator[tuple[int, Record]]:
        for number, line in enumerate(_split(self._data), start=1):
            try:
                value = _decode(line)
            except (msgspec.DecodeError, UnicodeError, RecursionError):
                for record in self._recovered(number, line):
                    yield number, record
                continue
            if value.__class__ is dict:
                yield number, value
            else:
                self.warn(number, "no JSON object, left out")

    def _recovered(self, number: int, line: bytes) -> list[Record]:
        if not line.strip(_BLANK):
            return []
        records, fault = recover(line, self._is_record)
        if fault:
            mended = _BROKEN_ESCAPE.sub(_mended, line)
            if mended != line:
                again, still = recover(mended, self._is_record)
                if len(again) > len(records):
                    records = again
                    fault = "a backslash that JSON does not have, read as one that stands for itself"
                    fault = f"{fault}; {still}" if still else fault
            self.warn(number, fault)
        return records


def opening(head: bytes) -> list[Record]:
    """The objects on the lines that a file begins with.

    Of a first line that goes on beyond `head`, the fields up to the first that holds more than a scalar.
    """
    records: list[Record] = []
    for line in _split(head):
        try:
            value = _decode(line)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            continue
        if isinstance(value, dict):
            records.append(cast("Record", value))
    return records or _cut_off(head)


def timestamp(value: object) -> float | None:
    """Seconds since the epoch of an ISO 8601 text, or of a number of seconds or milliseconds.

    None of anything else. A text without an offset is UTC.
    """
    if type(value) is str:
        try:
            moment = datetime.fromisoformat(value)
            return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
        except ValueError:
            return None
    if (type(value) is int or type(value) is float) and 0 < value < _LAST_INSTANT:
        return value / 1000 if value >= _MILLISECONDS else float(value)
    return None


def as_object(value: object) -> Record:
    """The object, or an empty one where it is anything else."""
    return cast("Record", value) if isinstance(value, dict) else {}


def stem(source: str) -> str:
    """The name of a file without folder and ending."""
    return PurePath(source).stem or source


def _split(data: bytes) -> Iterator[bytes]:
    """The lines, one at a time: a list of them would double what a large file takes."""
    start = 3 if data.startswith(b"\xef\xbb\xbf") else 0
    while (end := data.find(b"\n", start)) >= 0:
        yield data[start:end]
        start = end + 1
    if start < len(data):
        yield data[start:]


def _mended(found: re.Match[bytes]) -> bytes:
    return found[0] if found[1] else b"\\\\"


_SCALAR_FIELD = re.compile(
    rb'\s*[{,]\s*"((?:[^"\\]|\\.)*)"\s*:\s*("(?:[^"\\]|\\.)*"|-?[0-9.eE+-]+|true|false|null)(?=\s*[,}])'
)
_NEXT_FIELD = re.compile(rb'\s*[{,]\s*"((?:[^"\\]|\\.)*)"\s*:\s*')


def _cut_off(head: bytes) -> list[Record]:
    """The fields that a line cut off begins with; a field that is not whole is there as an empty object."""
    fields: Record = {}
    position = 3 if head.startswith(b"\xef\xbb\xbf") else 0
    while found := _SCALAR_FIELD.match(head, position):
        fields[_name(found)] = cast("Any", _value(found[2]))
        position = found.end()
    if found := _NEXT_FIELD.match(head, position):
        fields[_name(found)] = {}
    return [fields] if fields else []


def _name(found: re.Match[bytes]) -> str:
    return found[1].decode("utf-8", "replace")


def _value(text: bytes) -> object:
    try:
        return _decode(text)
    except (msgspec.DecodeError, UnicodeError):
        return None
