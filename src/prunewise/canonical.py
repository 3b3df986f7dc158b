"""Canonical JSON: one text for equal values, written as JavaScript's `JSON.stringify` writes them.

Keys are sorted at every depth (by code point), there is no white space, and characters beyond ASCII
stand as they are. Two calls are the same call where their arguments have the same canonical text.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from json.encoder import encode_basestring
from typing import Any, cast

import msgspec

_SAFE_INTEGER = 2**53
_LONGEST_WHOLE = 21
_SMALLEST_FRACTION = -6
"""Where JavaScript goes over to writing an exponent: numbers of more digits before the point, or with
more zeros behind it."""
_encode = msgspec.json.Encoder(order="deterministic").encode
_SURROGATE = re.compile("[\ud800-\udfff]")


def canonical(value: object) -> str:
    """The canonical JSON of a decoded JSON value. Never raises, however deep or odd the value is.

    Numbers are JavaScript's: `1.0` is `1`, `1e21` is `1e+21`, `-0.0` is `0`, an integer beyond 2**53
    is the double it would be read as, and what is not finite is `null`. A lone surrogate is written
    as its six-character escape. What JSON does not have is written as the text of it.
    """
    if _is_plain(value):
        try:
            return _encode(value).decode()
        except (UnicodeEncodeError, RecursionError):
            pass  # a lone surrogate, or nested deeper than the encoder goes
    return _write(value)


def _is_plain(value: object) -> bool:
    """Whether the encoder writes it as JavaScript would: no doubles, no integers that would become some."""
    waiting: list[Any] = [value]
    while waiting:
        part = waiting.pop()
        kind = part.__class__
        if kind is str or part is None or kind is bool:
            continue
        if kind is dict:
            waiting += part.values()
            if any(type(key) is not str for key in part):
                return False
        elif kind is list:
            waiting += part
        elif kind is not int or not -_SAFE_INTEGER <= part <= _SAFE_INTEGER:
            return False
    return True


def _write(value: object) -> str:
    """The same without the encoder, with a stack of its own instead of recursion."""
    out: list[str] = []
    waiting: list[object] = [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, _Raw):
            out.append(part.text)
        elif isinstance(part, Mapping):
            members = cast("Mapping[object, object]", part)
            named = sorted(((str(key), member) for key, member in members.items()), key=lambda pair: pair[0])
            waiting.append(_CLOSE_OBJECT)
            for index in range(len(named) - 1, -1, -1):
                name, member = named[index]
                waiting += (member, _Raw(f"{',' if index else ''}{_string(name)}:"))
            waiting.append(_OPEN_OBJECT)
        elif isinstance(part, (list, tuple)):
            items = cast("list[object] | tuple[object, ...]", part)
            waiting.append(_CLOSE_LIST)
            for index in range(len(items) - 1, -1, -1):
                waiting.append(items[index])
                if index:
                    waiting.append(_COMMA)
            waiting.append(_OPEN_LIST)
        else:
            out.append(_scalar(part))
    return "".join(out)


class _Raw(msgspec.Struct, frozen=True, gc=False):
    """Text that goes out as it is."""

    text: str


_OPEN_OBJECT, _CLOSE_OBJECT, _OPEN_LIST, _CLOSE_LIST, _COMMA = map(_Raw, "{}[],")


def _scalar(value: object) -> str:
    if value is None:
        return "null"
    if value is True:
        return "true"
    if value is False:
        return "false"
    if isinstance(value, (int, float)):
        return _number(value)
    return _string(value if isinstance(value, str) else str(value))


def _string(text: str) -> str:
    if _SURROGATE.search(text) is None:
        return encode_basestring(text)
    # Two surrogates that make a pair are one character, as they are in JavaScript.
    text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    return _SURROGATE.sub(lambda found: f"\\u{ord(found[0]):04x}", encode_basestring(text))


def _number(value: float) -> str:
    """A number as JavaScript writes it (ECMAScript, Number::toString with radix 10)."""
    if isinstance(value, int) and -_SAFE_INTEGER <= value <= _SAFE_INTEGER:
        return str(int(value))
    try:
        double = float(value)
    except OverflowError:
        return "null"
    if not math.isfinite(double):
        return "null"
    if double == 0:
        return "0"
    # repr gives the shortest digits that read back as the same double, and so does JavaScript;
    # only where the point stands and when an exponent is written differ.
    mantissa, _, exponent = repr(abs(double)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    point = len(whole) + int(exponent or 0) - (len(whole + fraction) - len(digits))
    digits = digits.rstrip("0")
    return ("-" if double < 0 else "") + _place_point(digits, point)


def _place_point(digits: str, point: int) -> str:
    """Significant digits with the decimal point after the first `point` of them."""
    if len(digits) <= point <= _LONGEST_WHOLE:
        return digits.ljust(point, "0")
    if 0 < point <= _LONGEST_WHOLE:
        return f"{digits[:point]}.{digits[point:]}"
    if _SMALLEST_FRACTION < point <= 0:
        return f"0.{'0' * -point}{digits}"
    power = point - 1
    return f"{digits[0]}{'.' if digits[1:] else ''}{digits[1:]}e{'+' if power > 0 else '-'}{abs(power)}"
