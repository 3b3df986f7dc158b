"""JSON lines as programs really leave them: torn, glued together, padded with NUL bytes.

Knows how to get whole records out of one line that the decoder refuses. Knows nothing of what the
records mean; whoever reads a file says by which mark a complete record is known.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, cast

Record = dict[str, Any]

_PADDING = "\ufeff\0 \t\r\n"
_PAUSE = "\0 \t\r\n"
_LONGEST_INTEGER = 400
_WORK_PER_CHARACTER = 64
"""How often each character of a line may be looked at in the search for a complete record."""


def _integer(digits: str) -> float:
    """Python refuses to read integers of thousands of digits; as doubles they are infinite anyway."""
    return int(digits) if len(digits) < _LONGEST_INTEGER else float(digits)


_strict = json.JSONDecoder(parse_int=_integer)
_lenient = json.JSONDecoder(parse_int=_integer, strict=False)


def recover(line: bytes, is_record: Callable[[Record], bool]) -> tuple[list[Record], str | None]:
    """The records of one physical line that msgspec refused, and what was wrong with it, in words.

    Nothing is wrong with a blank line, a byte order mark, lone surrogates or bytes that are not
    UTF-8 (which become U+FFFD). Objects glued together are split; of a torn record with a complete
    one behind it, the complete one is taken, where `is_record` knows it for one.
    """
    text = line.decode("utf-8", "replace")
    content = text.strip(_PADDING)
    padding = text.count("\0") if "\0" in text else 0
    if not content:
        return [], f"{padding} NUL bytes and nothing else, passed over" if padding else None
    try:
        value = _strict.decode(content)
    except RecursionError:
        return [], "nested too deeply to be read, left out"
    except ValueError:
        return _recover_pieces(content, is_record)
    if not isinstance(value, dict):
        return [], "no JSON object, left out"
    return [cast("Record", value)], f"{padding} NUL bytes around an entry, passed over" if padding else None


def _recover_pieces(content: str, is_record: Callable[[Record], bool]) -> tuple[list[Record], str | None]:
    records, rest = _leading(content)
    if not rest:
        if len(records) == 1:
            return records, "control characters that are not escaped, read all the same"
        return records, f"{len(records)} entries on one line, each read"
    tail = _trailing(rest, is_record)
    if tail:
        return records + tail, "a torn entry with a complete one behind it, only the complete one read"
    if records:
        return records, "a torn entry behind a complete one, only the complete one read"
    return [], "not JSON (torn or damaged), left out"


def _leading(content: str) -> tuple[list[Record], str]:
    """The complete objects that a text begins with, and what is left of it."""
    records: list[Record] = []
    position = 0
    while position < len(content):
        try:
            value, end = _lenient.raw_decode(content, position)
        except (ValueError, RecursionError):
            break
        if not isinstance(value, dict):
            break
        records.append(cast("Record", value))
        position = end
        while position < len(content) and content[position] in _PAUSE:
            position += 1
    return records, content[position:]


def _trailing(content: str, is_record: Callable[[Record], bool]) -> list[Record]:
    """The complete records that a text ends with.

    Looked for from the right: a part of a record never reaches to the record's end, so the first
    object that does is the whole record. Quotes inside JSON strings are escaped, so the search does
    not stop at what only looks like the start of an object.
    """
    records: list[Record] = []
    work = _WORK_PER_CHARACTER * len(content)
    end = len(content)
    start = content.rfind('{"')
    while start != -1 and work > 0:
        try:
            value, stop = _lenient.raw_decode(content, start)
        except json.JSONDecodeError as error:
            stop = error.pos
        except RecursionError:
            stop = end
        else:
            if not content[stop:end].strip(_PAUSE) and is_record(value):
                records.append(value)
                end = start
        work -= stop - start
        start = content.rfind('{"', 0, start)
    records.reverse()
    return records
