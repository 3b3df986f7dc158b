"""The report as one JSON document. docs/how-to/read-a-report.md explains its figures.

Keys are those of `prunewise.replay.totals.Totals`, in camel case, in the order of its fields; a later
version only adds some. An infinite number is null with `unbounded` true beside it.
"""

from __future__ import annotations

import math
from typing import Any, cast

import msgspec

from prunewise.replay.report import words
from prunewise.replay.report.share import anonymous
from prunewise.replay.totals import Totals

VERSION = 1
"""Of the keys."""


def to_json(totals: Totals, share: bool = False) -> dict[str, Any]:  # noqa: FBT001, FBT002 - a mode, told by name
    """The totals as plain JSON values.

    Args:
        totals: what to show.
        share: leave out everything that tells whose sessions they are.
    """
    shown = anonymous(totals) if share else totals
    document = cast("dict[str, Any]", msgspec.to_builtins(shown))
    document["policies"] = [{"policy": name, "what": words.what(name)} for name in shown.policies]
    if share:
        for key in ("errors", "excluded", "copies", "empty", "warned"):
            document[key] = len(document[key])
    return cast("dict[str, Any]", _plain({"version": VERSION, **document}, share=share))


_TOLD = frozenset(("source", "lineage", "key"))
"""What a shared document has not, not even empty."""


def _plain(value: Any, *, share: bool) -> Any:
    """The value without infinite numbers, which JSON has not."""
    if isinstance(value, dict):
        found: dict[str, Any] = {}
        for key, one in cast("dict[str, Any]", value).items():
            if share and key in _TOLD:
                continue
            if isinstance(one, float) and not math.isfinite(one):
                found |= {key: None, "unbounded": True}
            else:
                found[key] = _plain(one, share=share)
        return found
    if isinstance(value, (list, tuple)):
        return [_plain(one, share=share) for one in cast("list[Any]", value)]
    return value
