"""The tool vocabulary: which tools read, write, edit or run, and what their arguments are called, per host.

Knows names and arguments. Knows no files: paths are resolved lexically.
"""

from __future__ import annotations

import math
import posixpath
from collections.abc import Mapping
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
    """The tools of one host. Names are compared as they are written; `shell` names its command tools."""

    files: Mapping[str, Action]
    shell: frozenset[str] = frozenset()
    recall: frozenset[str] = frozenset({"recall"})
    paths: tuple[str, ...] = ("path", "file_path", "filePath")
    """Argument names that hold the path, the first present one wins."""


PI = Vocabulary(files={"read": "read", "write": "write", "edit": "edit"}, shell=frozenset({"bash"}))


def file_operation(
    vocabulary: Vocabulary, name: str, arguments: Mapping[str, Any], cwd: str | None
) -> FileOperation | None:
    """What the call does to a file, or None where it is no file tool or names no path."""
    action = vocabulary.files.get(name)
    if action is None:
        return None
    path = next((arguments[key] for key in vocabulary.paths if isinstance(arguments.get(key), str)), "")
    path = normalise_path(path, cwd)
    if not path:
        return None
    if action != "read":
        return FileOperation(action, path)
    offset, limit = _positive(arguments.get("offset")), _positive(arguments.get("limit"))
    first = offset or 1
    return FileOperation(action, path, first, math.inf if limit is None else first + limit - 1)


def normalise_path(path: str, cwd: str | None) -> str:
    """Trim, and resolve `.`, `..` and a relative path lexically; empty for a blank path."""
    path = path.strip()
    if not path:
        return ""
    if cwd is not None and not path.startswith("/"):
        path = f"{cwd}/{path}"
    path = posixpath.normpath(path)
    return path[1:] if path.startswith("//") else path


def _positive(value: object) -> float | None:
    """The number, where it is a positive one; an offset or limit that is not counts as absent."""
    if isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0 and not math.isinf(value):
        return value
    return None
