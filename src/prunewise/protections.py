"""Protections: vetoes on what strategies propose, by tool name, by path glob and by recency.

They hold for automatic proposals of every strategy; a manual prune is held by names and paths only.
Globs are matched lexically, case-sensitively, with `**` and dot files; no file is looked at.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from prunewise import settings
from prunewise.transcript import Exchange

LONGEST_PATH = 4096
"""Longer strings are no paths, in characters; globs are not tried on them."""

_MAGIC = re.compile(r"[*?\[\]{}()!+@|\\]+")


class Protections:
    """The vetoes of one settings value, made ready to ask."""

    def __init__(self, protections: settings.Protections) -> None:
        self.recent_turns = protections.recent_turns
        self._names = frozenset(name.lower() for name in protections.tool_names)
        self._globs = tuple((glob, _literal(glob)) for glob in protections.path_globs)
        self._patterns: dict[str, list[re.Pattern[str]]] = {}

    def reason(self, exchange: Exchange) -> str | None:
        """Why this exchange may not be pruned at all, or None."""
        if exchange.call.name.lower() in self._names:
            return f"tool {exchange.call.name} is protected"
        operation = exchange.operation
        texts = _texts(exchange.call.arguments)
        for text in texts if operation is None else (operation.path, *texts):
            glob = self._glob_for(text)
            if glob is not None:
                return f"path is protected by {glob}"
        return None

    def ripe_at(self, turn: int) -> int:
        """The current turn from which a message of `turn` is no longer recent."""
        return turn + self.recent_turns

    def _glob_for(self, text: str) -> str | None:
        if len(text) > LONGEST_PATH:
            return None
        for glob, literal in self._globs:
            # The longest literal of a glob must be in what it matches: this settles nearly every string.
            if literal in text and any(pattern.match(text) for pattern in self._compiled(glob)):
                return glob
        return None

    def _compiled(self, glob: str) -> list[re.Pattern[str]]:
        patterns = self._patterns.get(glob)
        if patterns is None:
            from wcmatch import glob as wcglob  # costs some milliseconds; most processes never match a glob

            flags = wcglob.GLOBSTAR | wcglob.DOTGLOB | wcglob.BRACE | wcglob.CASE | wcglob.FORCEUNIX
            patterns = [re.compile(text) for text in wcglob.translate(glob, flags=flags)[0]]
            self._patterns[glob] = patterns
        return patterns


def _literal(glob: str) -> str:
    """The longest piece of a glob without wildcards; empty where braces or brackets could stand for it."""
    if any(character in glob for character in "[{(\\"):
        return ""
    return max(_MAGIC.split(glob.replace("**/", "*").replace("/**", "*")), key=len)


def _texts(arguments: Mapping[str, Any]) -> Iterator[str]:
    """Every string in the arguments, at any depth."""
    waiting: list[object] = list(arguments.values())
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, Mapping):
            waiting.extend(value.values())
        elif isinstance(value, Sequence):
            waiting.extend(value)
