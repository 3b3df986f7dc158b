"""Recall: from the reference in a marker back to the full output.

Knows the two forms of a reference and how an output is laid out as text. Which output a reference
leads to is the store's to say.
"""

from __future__ import annotations

import json
from typing import Any

from prunewise.errors import RecallError
from prunewise.markers import FULL
from prunewise.stores import Original, Store
from prunewise.tokens import utf16_length
from prunewise.transcript import Text

LIMIT = 12_000
"""The characters that the default form gives, in UTF-16 units as its hosts count them."""


def recall(store: Store, reference: str) -> str:
    """The output that a reference leads to, as text.

    Up to `LIMIT` characters and then one line that names the full form; with `FULL` behind the
    reference, all of it. An input that was purged comes first, as JSON; an image stands as
    `[image: image/png]`, a file as `[file: application/pdf]`.

    Raises:
        RecallError: it leads to no output, with the reason in one line.
    """
    return _shown(store, reference)[0]


def recall_parts(store: Store, reference: str) -> list[Any]:
    """The same as content blocks: one of type text, then the images and files as the host stored them.

    Raises:
        RecallError: it leads to no output, with the reason in one line.
    """
    text, original = _shown(store, reference)
    return [{"type": "text", "text": text}, *original.images]


def original(store: Store, reference: str) -> Original:
    """The output itself, in parts, whatever its length.

    Raises:
        RecallError: it leads to no output, with the reason in one line.
    """
    return store.original(_parse(reference)[0])


def _shown(store: Store, reference: str) -> tuple[str, Original]:
    plain, full = _parse(reference)
    original = store.original(plain)
    text = _laid_out(original)
    return (text if full else _shortened(text, plain)), original


def _parse(reference: str) -> tuple[str, bool]:
    """The reference without its suffix, and whether it had one."""
    plain = reference.strip()
    full = plain.endswith(FULL)
    plain = plain.removesuffix(FULL).strip()
    if not plain:
        raise RecallError("a recall reference is missing; a marker names its own, such as #412")
    return plain, full


def _laid_out(original: Original) -> str:
    pieces = [part.text if isinstance(part, Text) else part.label for part in original.content]
    output = "\n".join(pieces)
    if original.input is None:
        return output
    return f"Input: {json.dumps(original.input, ensure_ascii=False)}\n\nOutput:\n{output}"


def _shortened(text: str, reference: str) -> str:
    length = utf16_length(text)
    if length <= LIMIT:
        return text
    shown = _head(text, LIMIT)
    hint = f'{utf16_length(shown):,} of {length:,} characters; recall "{reference}{FULL}" gives all of it'
    return f"{shown}\n[{hint}]"


def _head(text: str, limit: int) -> str:
    """The longest beginning of at most `limit` UTF-16 units that splits no pair of them."""
    head = text[:limit]
    while (excess := utf16_length(head) - limit) > 0:
        head = head[: -((excess + 1) // 2)]
    if "\ud800" <= head[-1:] <= "\udbff" and "\udc00" <= text[len(head) : len(head) + 1] <= "\udfff":
        head = head[:-1]  # half of a pair that the text holds as two surrogates
    return head
