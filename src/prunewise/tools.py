"""The tool vocabulary: which tools read, write, edit or run, and what their arguments are called, per host.

Knows names and arguments. Knows no files: paths are resolved lexically.
"""

from __future__ import annotations

import math
import posixpath
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Literal

import msgspec

Action = Literal["read", "write", "edit"]


class FileOperation(msgspec.Struct, frozen=True, gc=False):
    """What a call does to a file: a read of the lines `first` to `last` (1-based, both included;
    `last` is infinity for a read to the end), or a write or edit of all of it."""

    action: Action
    path: str
    """Trimmed, and resolved lexically against the working directory where there is one."""
    first: float = 1
    last: float = math.inf

    def covers(self, other: FileOperation) -> bool:
        """Whether every line of `other` is among the lines of this."""
        return self.first <= other.first and self.last >= other.last


class Vocabulary(msgspec.Struct, frozen=True):
    """The tools of one host, their names in lower case: letter case is not told apart.
    `shell` names its command tools."""

    files: Mapping[str, Action]
    shell: frozenset[str] = frozenset()
    recall: frozenset[str] = frozenset({"recall"})
    paths: tuple[str, ...] = ("path", "file_path", "filePath")
    """Argument names that hold the path, the first present one wins."""
    first_line: str = "offset"
    """The argument that names a read's first line."""
    line_count: str = "limit"
    """The argument that names how many lines; empty where the host has none."""
    last_line: str = ""
    """The argument that names the last line; empty where the host has none."""
    first_index: int = 1
    """The number that the host gives to a file's first line."""
    command: str = "command"
    """The argument of a shell tool that holds the command."""
    unchanged_stubs: tuple[str, ...] = ()
    """How outputs begin that only say a file is as it was read before. They are references to that
    read, never reads."""


PI = Vocabulary(files={"read": "read", "write": "write", "edit": "edit"}, shell=frozenset({"bash"}))


def file_operation(
    vocabulary: Vocabulary, name: str, arguments: Mapping[str, Any], cwd: str | None
) -> FileOperation | None:
    """What the call does to a file, or None where it is no file tool or names no path."""
    action = vocabulary.files.get(name.lower())
    if action is None:
        return None
    path = next((arguments[key] for key in vocabulary.paths if isinstance(arguments.get(key), str)), "")
    path = normalise_path(path, cwd)
    if not path:
        return None
    if action != "read":
        return FileOperation(action, path)
    first, last = _lines(vocabulary, arguments)
    return FileOperation(action, path, first, last)


def _lines(vocabulary: Vocabulary, arguments: Mapping[str, Any]) -> tuple[float, float]:
    """The lines that a read covers, from 1; what is no positive number counts as absent."""
    start = _positive(arguments.get(vocabulary.first_line), vocabulary.first_index)
    first = 1 if start is None else start - vocabulary.first_index + 1
    count = _positive(arguments.get(vocabulary.line_count)) if vocabulary.line_count else None
    if count is not None:
        return first, first + count - 1
    last = _positive(arguments.get(vocabulary.last_line)) if vocabulary.last_line else None
    return first, math.inf if last is None else last - vocabulary.first_index + 1


@lru_cache(maxsize=4096)
def normalise_path(path: str, cwd: str | None) -> str:
    """Trim, and resolve `.`, `..` and a relative path lexically; empty for a blank path."""
    path = path.strip()
    if not path:
        return ""
    if cwd is not None and not path.startswith("/"):
        path = f"{cwd}/{path}"
    path = posixpath.normpath(path)
    return path[1:] if path.startswith("//") else path


def _positive(value: object, least: int = 1) -> float | None:
    """The number, where it is a positive one (or, with `least` 0, zero)."""
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not math.isfinite(value):
        return None
    return value if value > 0 or value == least == 0 else None
