"""How originals and ledger entries are written: JSON in ASCII, which holds lone surrogates and NaN too."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any, cast

import msgspec

from prunewise import ledger
from prunewise.ledger import Entry
from prunewise.stores import Original
from prunewise.transcript import Image, Text

_BYTES = "$bytes"


def encoded(value: object) -> bytes:
    """A value as JSON; bytes in it, too.

    Raises:
        TypeError: it holds what could not be read again.
        RecursionError: it is nested too deeply.
    """
    count = 0

    def wrapped(part: object) -> object:
        nonlocal count
        if not isinstance(part, bytes):
            message = f"{type(part).__name__} cannot be written"
            raise TypeError(message)
        count += 1
        return {_BYTES: base64.b64encode(part).decode()}

    text = json.dumps(value, separators=(",", ":"), default=wrapped)
    if text.count(f'"{_BYTES}":') != count:  # it would come back as bytes
        message = f"an object with the key {_BYTES} cannot be written"
        raise TypeError(message)
    return text.encode()


def decoded(data: bytes) -> Any:
    """What `encoded` wrote."""
    return json.loads(data, object_hook=_unwrapped)


def _unwrapped(part: dict[str, Any]) -> Any:
    return base64.b64decode(part[_BYTES]) if _BYTES in part else part


def from_original(original: Original) -> tuple[dict[str, Any], Mapping[str, Any] | None]:
    """An original as values for `encoded`: the output, and the purged input."""
    content = [msgspec.to_builtins(part) for part in original.content]
    output = {"message": original.message, "name": original.name, "content": content}
    if original.images:
        output["images"] = list(original.images)
    return output, original.input


def to_original(output: Mapping[str, Any], input: Mapping[str, Any] | None) -> Original:
    """The original that `from_original` took apart."""
    content = tuple(Text(**part) if "text" in part else Image(**part) for part in output["content"])
    return Original(output["message"], output["name"], content, input, tuple(output.get("images", ())))


def to_entry(data: object) -> Entry | None:
    """The entry that `ledger.to_data` wrote; None where this version does not know its type or shape."""
    custom_type, fields = cast("list[Any]", data)
    try:
        return ledger.from_data(custom_type, fields)
    except msgspec.ValidationError:
        return None
