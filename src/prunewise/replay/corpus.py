"""Where recorded sessions come from: files, folders, globs, URLs, and the folders of every known agent.

Knows how to find and to read them, and which were asked for. Opens files for reading only. What a
session holds, and what is to be found out about it, it does not know.
"""

from __future__ import annotations

import glob
import os
import re
import stat
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from datetime import datetime
from pathlib import Path, PurePath
from typing import IO, Any

import msgspec
from wcmatch import fnmatch

from prunewise import tools
from prunewise.errors import InputError, PrunewiseError
from prunewise.formats import opencode
from prunewise.formats.detect import HEAD, READERS, detect, kept_sessions
from prunewise.formats.pi import PI
from prunewise.formats.pi_usage import NOTHING, billed, by_answer
from prunewise.formats.reading import string
from prunewise.recording import Epoch, LLMCall, Recording
from prunewise.replay.results import ErrorRow
from prunewise.stores.pi_session import PiSession

SUFFIXES = (".jsonl", ".json", ".traj", ".db")
"""What the names of files end in that are looked at in a folder. A file that is named is always read."""
MOST_BYTES = 256 * 2**20
"""Larger files are left out, since a session is held in memory while it is replayed. Databases are read
session by session, and may have any size."""

_DATABASE_HEAD = b"SQLite format 3\x00"
_STAMPS = ("mtime", "LastModified", "ETag", "created")
"""Where file systems say when a file was last changed."""
_FAILED = ("error", "aborted")
_ATTEMPTS = 3
_PAUSE_SECONDS = 0.1


class Source(msgspec.Struct, frozen=True, order=True):
    """A file that may hold sessions."""

    name: str
    """Its path as it was found, or its URL."""
    size: int = 0
    stamp: str = ""
    """When it was last changed, or what else tells one state of it from another."""


class Folder(msgspec.Struct, frozen=True):
    """Where an agent keeps its sessions."""

    agent: str
    path: str
    """Several folders with commas between."""
    files: int


class Listing(msgspec.Struct, frozen=True):
    """What there is to be replayed."""

    sources: tuple[Source, ...]
    """By name, each file once."""
    problems: tuple[ErrorRow, ...] = ()
    """Folders that could not be looked into."""
    folders: tuple[Folder, ...] = ()
    """Of known agents, where no paths were given."""


class Selection(msgspec.Struct, frozen=True):
    """Which sessions are asked for."""

    since: float | None = None
    """Sessions whose last LLM call was at this time or later, seconds since the epoch."""
    project: str = ""
    """A part of, or a glob for, the session's working directory or the folder that it is kept in."""

    def may_hold(self, source: Source) -> bool:
        """Whether a file can hold such a session: one that was last changed earlier holds none."""
        if self.since is None or not source.stamp.isdecimal():
            return True
        return int(source.stamp) / 1e9 >= self.since

    def takes(self, recording: Recording, source: Source) -> bool:
        """Whether this session is asked for."""
        return self._is_recent(recording, source) and self._is_of_project(recording, source)

    def _is_recent(self, recording: Recording, source: Source) -> bool:
        if self.since is None:
            return True
        times = [call.time for epoch in recording.epochs for call in epoch.calls if call.time is not None]
        return max(times) >= self.since if times else self.may_hold(source)

    def _is_of_project(self, recording: Recording, source: Source) -> bool:
        wanted = self.project.lower()
        names = [name.lower() for name in (recording.cwd or "", _folder_name(source.name)) if name]
        if glob.has_magic(wanted):
            return any(fnmatch.fnmatch(name, wanted) for name in names)
        return not wanted or any(wanted in name for name in names)


def project_of(recording: Recording, source: Source) -> str:
    """The session's working directory, or else the name of the folder that it is kept in."""
    return recording.cwd or _folder_name(source.name)


def _folder_name(name: str) -> str:
    """The last folder of a path that says more than the date, or that there are chats in it."""
    parents = PurePath(name).parent.parts
    return next((part for part in reversed(parents) if part != "chats" and not part.isdecimal()), "")


_AGE = re.compile(r"(\d+)([hdw])")
_SECONDS = {"h": 3600, "d": 86400, "w": 7 * 86400}


def since(text: str, now: float) -> float:
    """The time that a date (`2026-03-01`, local time), or an age (`12h`, `30d`, `8w`), stands for.

    An age begins with its hour, or its day, so that the same age is the same time for a while.

    Raises:
        InputError: it is neither.
    """
    age = _AGE.fullmatch(text.strip())
    try:
        if not age:
            return datetime.fromisoformat(text.strip()).astimezone().timestamp()
        then = datetime.fromtimestamp(now - int(age[1]) * _SECONDS[age[2]]).astimezone()
        hour = then.hour if age[2] == "h" else 0
        return then.replace(hour=hour, minute=0, second=0, microsecond=0).timestamp()
    except (ValueError, OverflowError, OSError):
        message = f"{text!r} is neither a date such as 2026-03-01 nor an age such as 12h, 30d or 8w"
        raise InputError(message) from None


# ---------------------------------------------------------------- finding


def find(paths: Iterable[str | os.PathLike[str]]) -> Listing:
    """The files that may hold sessions: those named, and in folders, at any depth, those of a fitting name.

    A path is a file, a folder, a glob (`**` for any depth), or a URL of any of these that fsspec knows.

    Raises:
        InputError: there is nothing of this name.
    """
    finder = _Finder()
    for path in paths:
        finder.take(os.fspath(path))
    return finder.listing()


def find_known(environment: Mapping[str, str], home: Path) -> Listing:
    """The sessions of every known agent whose folder is there."""
    finder = _Finder()
    folders: list[Folder] = []
    for kept in kept_sessions(environment, home):
        folders.append(Folder(kept.agent, kept.where, len(kept.files)))
        for file in kept.files:
            finder.file(str(file))
    return msgspec.structs.replace(finder.listing(), folders=tuple(folders))


class _Finder:
    """Takes in paths; each file counts once, under the first of its names."""

    def __init__(self) -> None:
        self._found: dict[str, Source] = {}
        self._problems: dict[str, ErrorRow] = {}
        self._walked: set[tuple[int, int]] = set()

    def listing(self) -> Listing:
        """What has been found."""
        return Listing(
            tuple(sorted(self._found.values())),
            tuple(sorted(self._problems.values(), key=lambda row: row.source)),
        )

    def take(self, path: str) -> None:
        """Take in a file, a folder, a glob or a URL."""
        if "://" in path:
            self._url(path)
            return
        path = os.path.expanduser(path)  # noqa: PTH111 - a Path would lose a leading "./"
        if os.path.lexists(path):
            self._path(path)
            return
        matches = sorted(glob.glob(path, recursive=True, include_hidden=True)) if glob.has_magic(path) else []  # noqa: PTH207
        if not matches:
            what = "nothing matches this pattern" if glob.has_magic(path) else "no such file or folder"
            message = f"{path}: {what}"
            raise InputError(message)
        for match in matches:
            if os.path.isdir(match):  # noqa: PTH112
                self._folder(match)
            elif match.endswith(SUFFIXES) or not path.endswith("*"):
                self.file(match)

    def _path(self, path: str) -> None:
        if os.path.isdir(path):  # noqa: PTH112
            self._folder(path)
        else:
            self.file(path)

    def file(self, path: str) -> None:
        """Take in one file."""
        try:
            found = os.stat(path)  # noqa: PTH116
        except OSError as error:
            self._problem(path, error)
            return
        if not stat.S_ISREG(found.st_mode):
            self._problems[path] = ErrorRow(path, "not a regular file")
            return
        self._add(os.path.realpath(path), Source(path, found.st_size, str(found.st_mtime_ns)))

    def _add(self, key: str, source: Source) -> None:
        known = self._found.get(key)
        if known is None or source.name < known.name:
            self._found[key] = source

    def _problem(self, path: str, error: OSError) -> None:
        self._problems[path] = ErrorRow(path, (error.strerror or str(error)).lower())

    def _folder(self, path: str) -> None:
        def refused(error: OSError) -> None:
            self._problem(str(error.filename), error)

        for folder, inner, files in os.walk(path, followlinks=True, onerror=refused):
            if self._is_new(folder):
                inner.sort()
                for file in sorted(files):
                    if file.endswith(SUFFIXES):
                        self.file(os.path.join(folder, file))  # noqa: PTH118
            else:
                inner.clear()

    def _is_new(self, folder: str) -> bool:
        """Whether a folder has not been walked before: links may lead in circles."""
        found = os.stat(folder)  # noqa: PTH116
        key = (found.st_dev, found.st_ino)
        is_new = key not in self._walked
        self._walked.add(key)
        return is_new

    def _url(self, url: str) -> None:
        core = _fsspec(url)
        try:
            system, path = core.url_to_fs(url)
            infos = _listed(system, path)
        except (ImportError, OSError, ValueError) as error:
            message = f"{url}: {_said(error)}"
            raise InputError(message) from error
        behind = "".join(f"::{part}" for part in url.split("::")[1:])
        found = 0
        for info in infos:
            name: str = info["name"]
            if name.endswith(SUFFIXES) or name == path:
                full = system.unstrip_protocol(name) + behind
                stamp = next((str(info[key]) for key in _STAMPS if info.get(key)), "")
                self._add(full, Source(full, int(info.get("size") or 0), stamp))
                found += 1
        if not found:
            message = f"{url}: there is no session file"
            raise InputError(message)


def _listed(system: Any, path: str) -> list[dict[str, Any]]:
    """The files at a path of a file system of fsspec's, with what is known of them."""
    if glob.has_magic(path):
        matches = list(system.glob(path, detail=True).values())
    elif not path.endswith(SUFFIXES) and system.isdir(path):
        matches = list(system.find(path, detail=True).values())
    else:
        matches = [system.info(path)]
    files = [info for info in matches if info.get("type") != "directory"]
    for info in matches:
        if info.get("type") == "directory":
            files += system.find(info["name"], detail=True).values()
    return files


def _fsspec(url: str) -> Any:
    try:
        from fsspec import core  # pyright: ignore[reportMissingTypeStubs]
    except ImportError:
        message = f"{url}: URLs need the extra `replay`: pip install 'prunewise[replay]'"
        raise InputError(message) from None
    return core


# ---------------------------------------------------------------- reading


def load(source: Source, format: str | None = None, *, compaction: bool = True) -> Iterator[Recording]:
    """The sessions of a file: one, or all of a database.

    Args:
        source: the file.
        format: its format, where its first bytes are not to tell.
        compaction: whether a compaction of pi's ends an epoch; else all messages of the active branch
            are one, as if pi had never compacted.

    Raises:
        InputError: no reader knows it, it cannot be read, or it is too large.
        OSError: it cannot be opened.
    """
    if _is_database(source, format):
        if "://" in source.name:
            message = f"{source.name}: a database is read only where it is a file on this machine"
            raise InputError(message)
        yield from opencode.read_database(Path(source.name))
        return
    for attempt in range(1, _ATTEMPTS + 1):
        before = _state(source.name)
        try:
            recording = _read(source, format, compaction=compaction)
        except InputError:
            # An agent that replaces its file as a whole may have been seen at it.
            if attempt == _ATTEMPTS or _state(source.name) == before:
                raise
            time.sleep(_PAUSE_SECONDS)
        else:
            yield recording
            yield from recording.subagents
            return


def _is_database(source: Source, format: str | None) -> bool:
    if format not in (None, opencode.NAME):
        return False
    with _opened(source.name) as file:
        return file.read(len(_DATABASE_HEAD)) == _DATABASE_HEAD


def _read(source: Source, format: str | None, *, compaction: bool) -> Recording:
    name = source.name
    with _opened(name) as file:
        head = file.read(HEAD)
        if not head.strip():
            message = f"{name}: empty"
            raise InputError(message)
        known = format or detect(head)
        if known is None:
            message = f"{name}: no session that any reader knows"
            raise InputError(message)
        if source.size > MOST_BYTES:
            message = f"{name}: larger than {MOST_BYTES // 2**20} MB, left out"
            raise InputError(message)
        file.seek(0)
        data = file.read()
    if known == "pi" and not compaction:
        return read_uncompacted(name, data)
    return READERS[known].read_recording(name, data)


def _opened(name: str) -> AbstractContextManager[IO[bytes]]:
    if "://" in name:
        return _fsspec(name).open(name, "rb")
    return open(name, "rb")  # noqa: PTH123 - the name of a file that cannot be decoded is no Path for long


def _state(name: str) -> tuple[int, int] | None:
    """What a file looks like from outside; None where it is not known."""
    try:
        found = os.stat(name)  # noqa: PTH116
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns


def read_uncompacted(source: str, data: bytes) -> Recording:
    """A session of pi's whose compactions count for nothing: every message of the active branch is sent.

    So does the harness of the TypeScript extension, failed answers included.

    Raises:
        InputError: it is no pi session.
    """
    session = PiSession.from_bytes(data, source)
    branch = session.branch()
    beside = by_answer(branch)
    entries = [entry for entry in branch if entry.type == "message" and entry.message is not None]
    natives = [entry.message or {} for entry in entries]
    messages = [
        msgspec.structs.replace(PI.read(native, entry.id), warmed=beside.get(entry.id, NOTHING).warmed)
        for native, entry in zip(natives, entries, strict=True)
    ]
    calls = [
        LLMCall(
            index,
            usage := billed(entry),
            message.time,
            message.model,
            string(native.get("provider")),
            native.get("stopReason") in _FAILED and usage is None,
            message.warmed,
            beside.get(message.id, NOTHING).usage,
        )
        for index, (entry, message, native) in enumerate(zip(entries, messages, natives, strict=True))
        if message.role == "assistant"
    ]
    return Recording(
        format="pi",
        source=source,
        session=session.conversation or PurePath(source).stem,
        epochs=(Epoch(tuple(messages), tuple(calls)),),
        vocabulary=tools.PI,
        cwd=session.cwd,
        warnings=tuple(session.warnings),
        branches=max(len(session.leaves), 1),
    )


def reason(error: Exception, source: str) -> str:
    """Why a file was not replayed, on one line."""
    said = _said(error)
    return said.removeprefix(f"{source}: ") if isinstance(error, PrunewiseError) else said


def _said(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    if isinstance(error, PrunewiseError):
        return lines[0] if lines else "cannot be read"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    if isinstance(error, ImportError) and lines:
        return lines[0]
    return ": ".join((type(error).__name__, *lines[:1]))
