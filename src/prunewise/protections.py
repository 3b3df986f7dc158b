"""Protections: vetoes on what strategies propose, by tool name and by path glob; recency is the engine's.

They hold for automatic proposals of every strategy; a manual prune is held by names and paths only.
Globs are matched lexically, case-sensitively, with `**` and dot files; no file is looked at.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, cast

from prunewise import settings
from prunewise.transcript import Exchange

LONGEST_PATH = 4096
"""Longer strings are no paths, in characters; globs are not tried on them."""

DEEPEST_PATH = 64
"""Of a string with more slashes a glob with several `**` is not asked, since it would try them in every
combination: what cannot be told is kept.
"""

_MOST_ANSWERS = 4096
_UNKNOWN = "\0"

_EVERYTHING = re.compile(r".*", re.DOTALL)
_MAGIC = re.compile(r"[*?!+@|()\]}/]+")


class Protections:
    """The vetoes of one settings value, made ready to ask."""

    def __init__(self, protections: settings.Protections) -> None:
        self._names = frozenset(name.lower() for name in protections.tool_names)
        self._globs = tuple((glob, _literal(glob)) for glob in protections.path_globs)
        self._reasons: dict[tuple[str, str, str | None], str | None] = {}
        self._patterns: dict[str, list[re.Pattern[str]]] = {}

    def reason(self, exchange: Exchange) -> str | None:
        """Why this exchange may not be pruned at all, or None. Equal calls are asked about again and
        again, so answers are kept.
        """
        call, operation = exchange.call, exchange.operation
        key = (call.name, call.text, None if operation is None else operation.path)
        known = self._reasons.get(key, _UNKNOWN)
        if known is _UNKNOWN:
            known = self._reason(exchange)
            if len(self._reasons) >= _MOST_ANSWERS:
                self._reasons.clear()
            self._reasons[key] = known
        return known

    def _reason(self, exchange: Exchange) -> str | None:
        call = exchange.call
        if call.name.lower() in self._names:
            return f"tool {call.name} is protected"
        glob = None if exchange.operation is None else self._glob_for(exchange.operation.path)
        if glob is None:
            glob = self._glob_in(call.arguments.values())
        return None if glob is None else f"path is protected by {glob}"

    def _glob_in(self, values: Iterable[Any]) -> str | None:
        """The glob that matches any string among the values, at any depth, or None."""
        while values:
            deeper: list[Any] = []
            for value in values:
                if type(value) is str:
                    glob = self._glob_for(value)
                    if glob is not None:
                        return glob
                elif type(value) is dict:
                    deeper.extend(cast("dict[str, Any]", value).values())
                elif type(value) is list:
                    deeper.extend(cast("list[Any]", value))
            values = deeper
        return None

    def _glob_for(self, text: str) -> str | None:
        """The glob that matches, or None."""
        if len(text) > LONGEST_PATH:
            return None
        for glob, literal in self._globs:
            # The longest literal of a glob must be in what it matches: this settles nearly every string.
            if literal in text and self._matches(glob, text):
                return glob
        return None

    def _matches(self, glob: str, text: str) -> bool:
        if glob.count("**") > 1 and text.count("/") > DEEPEST_PATH:
            return True
        return any(pattern.fullmatch(text) for pattern in self._compiled(glob))

    def _compiled(self, glob: str) -> list[re.Pattern[str]]:
        patterns = self._patterns.get(glob)
        if patterns is None:
            from wcmatch import glob as wcglob  # costs some milliseconds; most processes never match a glob

            flags = wcglob.GLOBSTAR | wcglob.DOTGLOB | wcglob.BRACE | wcglob.CASE | wcglob.FORCEUNIX
            try:
                patterns = [re.compile(text) for text in wcglob.translate(glob, flags=flags)[0]]
            except Exception:  # noqa: BLE001 - the library hands on no name for braces that stand for too many
                patterns = [_EVERYTHING]  # what cannot be told is kept
            self._patterns[glob] = patterns
        return patterns


def _literal(glob: str) -> str:
    """The longest piece of a glob without wildcards or slashes (several match as one); empty where braces or
    brackets could stand for it.
    """
    if any(character in glob for character in "[{(\\"):
        return ""
    return max(_MAGIC.split(glob), key=len)
