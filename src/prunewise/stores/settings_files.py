"""Where settings are kept: pi's agent folder, a project's `.pi` folder, or a file that is named.

A file that nobody named may be missing or broken: then the defaults hold, and a warning says so in one line.
A file that was named must be there and must be JSON. Files are JSON as pi itself reads it: UTF-8 with or
without a byte order mark, no comments. Writing changes one key and leaves the rest as it is.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import stat
import sys
import time
import uuid
from collections.abc import Callable, Generator, Mapping
from pathlib import Path
from typing import cast
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from prunewise.errors import SettingsError
from prunewise.settings import (
    DEFAULTS,
    Problem,
    Settings,
    Unknown,
    changed,
    parse,
    set_keys,
    setting,
    shown,
    to_data,
    unknown,
)

AGENT_DIR_VARIABLE = "PI_CODING_AGENT_DIR"

_LARGEST_FILE = 16 * 2**20
_LONGEST_INTEGER = 300

# pi locks a settings file with a folder of its name and ".lock", and takes one this old for abandoned.
_LOCK_STALE_SECONDS = 10.0
_LOCK_PATIENCE_SECONDS = 12.0
_LOCK_POLL_SECONDS = 0.02
# As long as pi itself waits for a writer before it reads.
_READ_PATIENCE_SECONDS = 0.2
_READ_POLL_SECONDS = 0.005


class Loaded(Struct, frozen=True):
    """Settings as they were found, one line for each thing wrong with them, and pi's own switch."""

    settings: Settings = DEFAULTS
    warnings: tuple[str, ...] = ()
    auto_compaction: bool = True
    """pi's `compaction.enabled`: whether pi compacts by itself."""
    sources: Mapping[str, Path] = {}
    """The file that each key comes from; a key that is not here has its default."""


# ---------------------------------------------------------------- where


def agent_dir(environ: Mapping[str, str] | None = None) -> Path:
    """The agent folder of pi: `$PI_CODING_AGENT_DIR`, else `~/.pi/agent`. Not looked for on the disk."""
    environ = os.environ if environ is None else environ
    named = environ.get(AGENT_DIR_VARIABLE)
    if not named:
        return _home(environ) / ".pi" / "agent"
    if named.startswith("file://"):
        return Path(unquote(urlsplit(named).path))
    if named == "~" or named.startswith(("~/", f"~{os.sep}")):
        return _home(environ) / named[2:]
    return Path(named)


def _home(environ: Mapping[str, str]) -> Path:
    named = environ.get("USERPROFILE" if sys.platform == "win32" else "HOME")
    return Path(named) if named else Path.home()


def extension_file(environ: Mapping[str, str] | None = None) -> Path:
    """The extension's own file, `dynamic-context-pruning.json`."""
    return agent_dir(environ) / "extensions" / "dynamic-context-pruning.json"


def global_file(environ: Mapping[str, str] | None = None) -> Path:
    """The global `settings.json` of pi, whose `pruning` section is ours."""
    return agent_dir(environ) / "settings.json"


def project_file(cwd: str | Path) -> Path:
    """The project's `.pi/settings.json`, whose `pruning` section goes over the global one."""
    return Path(cwd) / ".pi" / "settings.json"


def file_of(key: str, cwd: str | Path | None = None, environ: Mapping[str, str] | None = None) -> Path:
    """The file that a command writes a setting to.

    For the `pruning` section that is the project's file where there is one, else pi's global file.

    Raises:
        SettingsError: there is no such setting, or only a file that is named can hold it.
    """
    home = setting(key).file
    if home == "--settings":
        message = f"{key} is read only from a file given with --settings"
        raise SettingsError(message)
    if home == "dynamic-context-pruning.json":
        return extension_file(environ)
    if cwd is not None and os.path.lexists(project_file(cwd)):
        return project_file(cwd)
    return global_file(environ)


# ---------------------------------------------------------------- reading


def load(
    cwd: str | Path | None = None,
    *,
    model: str | None = None,
    environ: Mapping[str, str] | None = None,
) -> Loaded:
    """The settings that hold in pi: the extension's file, then pi's global and project settings.

    Never raises: whatever is wrong with a file leaves what held before, with one warning.

    Args:
        cwd: the project's folder; None where there is none, or where pi does not trust it.
        model: `provider/id`, for its entry in pi's `compaction.modelOverrides`.
        environ: the environment variables; those of this process by default.
    """
    reading = _Reading()
    path = extension_file(environ)
    reading.take(_implicit(path, reading.warnings), path)
    compaction = _Compaction()
    for path in (global_file(environ), *(() if cwd is None else (project_file(cwd),))):
        data = _implicit(path, reading.warnings)
        reading.take({"pruning": data.get("pruning")}, path)
        compaction = compaction.over(data, path, reading.warnings)
    reserve = compaction.reserve_for(model)
    if reserve is not None:
        reading.take({"reserve": reserve.tokens}, reserve.path)
    return reading.loaded(auto_compaction=compaction.enabled)


def load_file(path: str | Path) -> Loaded:
    """The settings in a file that was named: the extension's shape, and `pruning`, `window` and `reserve`.

    Raises:
        SettingsError: the file is missing or cannot be read, or is not JSON (with file:line:column).
    """
    path = Path(path)
    reading = _Reading()
    reading.take(_parsed(_decoded(_bytes_of(path), path), path), path)
    return reading.loaded(auto_compaction=True)


def resolve(settings: Settings | Mapping[str, object] | str | Path | None) -> tuple[Settings, list[str]]:
    """Settings from whatever the public face takes, and one line for each thing wrong with them.

    None stands for the defaults: no file is read that was not named.

    Raises:
        SettingsError: a file was named, and is missing or not JSON.
    """
    if settings is None:
        return DEFAULTS, []
    if isinstance(settings, str | Path):
        loaded = load_file(settings)
        return loaded.settings, list(loaded.warnings)
    if not isinstance(settings, Settings):
        read, problems = parse(settings)
        return read, _messages(problems, unknown(settings))
    # Made in code, so of the right types; the values may still be out of range.
    read, problems = parse(to_data(settings))
    return (read, _messages(problems, [])) if problems else (settings, [])


class _Reading:
    """Settings as they grow, file by file."""

    def __init__(self) -> None:
        self.settings = DEFAULTS
        self.warnings: list[str] = []
        self.sources: dict[str, Path] = {}

    def take(self, data: Mapping[str, object], path: Path) -> None:
        """Put what a file says over what was there."""
        self.settings, problems = parse(data, self.settings)
        self.warnings.extend(f"{path}: {message}" for message in _messages(problems, unknown(data)))
        self.sources.update(dict.fromkeys(set_keys(data), path))

    def loaded(self, *, auto_compaction: bool) -> Loaded:
        """What has come together."""
        return Loaded(self.settings, tuple(self.warnings), auto_compaction, self.sources)


def _messages(problems: list[Problem], strangers: list[Unknown]) -> list[str]:
    """A line a problem, and one for each unknown key that looks like a slip: other keys may be someone's."""
    return [str(problem) for problem in problems] + [str(key) for key in strangers if key.suggestion]


class _Reserve(Struct, frozen=True):
    """A number of tokens, and the file that says so."""

    tokens: int
    path: Path


class _Compaction(Struct, frozen=True):
    """What pi's `compaction` sections say, as pi itself merges them."""

    enabled: bool = True
    reserve: _Reserve | None = None
    overrides: Mapping[str, _Reserve] = {}

    def over(self, data: Mapping[str, object], path: Path, warnings: list[str]) -> _Compaction:
        """This with a further file's section over it."""
        section = data.get("compaction")
        if section is None:
            # pi lets a null stand for the section: its defaults hold again.
            return _Compaction() if "compaction" in data else self
        if not isinstance(section, Mapping):
            _warn(path, "compaction", section, "an object", warnings)
            return self
        values = cast("Mapping[str, object]", section)
        enabled, reserve = self.enabled, self.reserve
        if "enabled" in values:
            given = values["enabled"]
            if given is None or isinstance(given, bool):
                enabled = given is not False
            else:
                _warn(path, "compaction.enabled", given, "true or false", warnings)
        if "reserveTokens" in values:
            reserve = _tokens(
                "compaction.reserveTokens", values["reserveTokens"], self.reserve, path, warnings
            )
        return _Compaction(enabled, reserve, self._overrides_with(values, path, warnings))

    def _overrides_with(
        self, values: Mapping[str, object], path: Path, warnings: list[str]
    ) -> Mapping[str, _Reserve]:
        given = values.get("modelOverrides")
        if given is None:
            return {} if "modelOverrides" in values else self.overrides
        if not isinstance(given, Mapping):
            _warn(path, "compaction.modelOverrides", given, "an object", warnings)
            return self.overrides
        merged = dict(self.overrides)
        for model, entry in cast("Mapping[str, object]", given).items():
            key = f'compaction.modelOverrides["{model}"]'
            if not isinstance(entry, Mapping):
                _warn(path, key, entry, "an object", warnings)
                continue
            tokens = cast("Mapping[str, object]", entry)
            if "reserveTokens" in tokens:
                before = merged.pop(model, None)
                after = _tokens(f"{key}.reserveTokens", tokens["reserveTokens"], before, path, warnings)
                if after is not None:
                    merged[model] = after
        return merged

    def reserve_for(self, model: str | None) -> _Reserve | None:
        """The reserve for a model (`provider/id`); None where pi's default holds."""
        return self.reserve if model is None else self.overrides.get(model, self.reserve)


def _tokens(
    key: str, value: object, before: _Reserve | None, path: Path, warnings: list[str]
) -> _Reserve | None:
    rule = setting("reserve").rule
    if value is None:
        return None
    kept = rule.read(value)
    if isinstance(kept, int):
        return _Reserve(kept, path)
    _warn(path, key, value, rule.allowed, warnings)
    return before


def _warn(path: Path, key: str, value: object, allowed: str, warnings: list[str]) -> None:
    warnings.append(f"{path}: {Problem(key, value, allowed)}")


# ---------------------------------------------------------------- files


def _implicit(path: Path, warnings: list[str]) -> Mapping[str, object]:
    """The object in a file that may be missing, empty or broken."""
    try:
        raw = _settled(path)
        return {} if raw is None else _parsed(_decoded(raw, path), path)
    except SettingsError as error:
        warnings.append(f"{error}; nothing in it holds")
        return {}


def _settled(path: Path) -> bytes | None:
    """What a file holds once nobody is writing to it; None where it is missing or empty.

    pi writes its settings in place, so that a reader may see half of them.
    """
    deadline = time.monotonic() + _READ_PATIENCE_SECONDS
    while True:
        before = _revision(path)
        raw = _optional(path)
        # In this order: a write that began before the lock was looked at shows in the revision.
        busy = _is_held(_lock_name(path)) or _revision(path) != before
        if not busy or time.monotonic() > deadline:
            return raw
        time.sleep(_READ_POLL_SECONDS)


def _revision(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except (OSError, ValueError):
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def _optional(path: Path) -> bytes | None:
    """What a file holds; None where it is missing or empty."""
    try:
        regular = stat.S_ISREG(path.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from None
    if not regular:
        message = f"{path}: not a file"
        raise SettingsError(message)
    return _bytes_of(path) or None


def _bytes_of(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            raw = file.read(_LARGEST_FILE + 1)
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from None
    if len(raw) > _LARGEST_FILE:
        message = f"{path}: larger than {_LARGEST_FILE // 2**20} MiB, which no settings file is"
        raise SettingsError(message)
    return raw


def _unreadable(path: Path, error: OSError | ValueError) -> SettingsError:
    return SettingsError(f"{_name(path)}: cannot be read: {_reason(error)}")


def _name(path: Path) -> str:
    """A path that may hold anything, for a message."""
    return shown(str(path))[1:-1]


def _reason(error: Exception) -> str:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return reason[:1].lower() + reason[1:]


def _decoded(raw: bytes, path: Path) -> str:
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = raw[: error.start]
        line = before.count(b"\n") + 1
        column = error.start - (before.rfind(b"\n") + 1) + 1
        message = f"{path}:{line}:{column}: not UTF-8 text"
        raise SettingsError(message) from None


def _parsed(text: str, path: Path) -> dict[str, object]:
    try:
        value: object = json.loads(text, parse_int=_integer)
    except json.JSONDecodeError as error:
        message = f"{path}:{error.lineno}:{error.colno}: not JSON: {error.msg[:1].lower()}{error.msg[1:]}"
        raise SettingsError(message) from None
    except RecursionError:
        message = f"{path}: not settings: nested too deeply"
        raise SettingsError(message) from None
    if not isinstance(value, dict):
        message = f"{path}:1:1: settings are a JSON object, not {shown(value)}"
        raise SettingsError(message)
    return cast("dict[str, object]", value)


def _integer(digits: str) -> int | float:
    """Python refuses to read very long integers; as in JavaScript they are infinite."""
    return int(digits) if len(digits) <= _LONGEST_INTEGER else float(digits)


# ---------------------------------------------------------------- writing


def write(path: str | Path, key: str, value: object) -> None:
    """Set one key in a settings file; None takes it out.

    Everything else in the file stays: other keys and their order, indentation, line ends, byte order mark,
    mode, and a symbolic link to the file. Readers see the old file or the new one. Writers, pi among them,
    wait for one another. Missing folders are made.

    Raises:
        SettingsError: the key or value is not allowed, or the file cannot be read or written. The file is
            then unchanged.
    """
    changed({}, key, value)
    path = Path(path)
    try:
        target = Path(os.path.realpath(path))
        for folder in {path.parent, target.parent}:
            folder.mkdir(parents=True, exist_ok=True)
        with _locked({Path(os.path.abspath(path)), target}):  # noqa: PTH100 - resolve() would follow the link
            _rewrite(target, lambda data: changed(data, key, value))
    except (OSError, ValueError, RecursionError) as error:
        message = f"{_name(path)}: cannot be written: {_reason(error)}"
        raise SettingsError(message) from None


def _rewrite(path: Path, change: Callable[[dict[str, object]], dict[str, object]]) -> None:
    raw = _optional(path) or b""
    text = _decoded(raw, path)
    before = _parsed(text, path) if text.strip() else {}
    after = _laid_out(change(before), text).encode("utf-8")
    if raw.startswith(b"\xef\xbb\xbf"):
        after = b"\xef\xbb\xbf" + after
    if after != raw:
        _replace(path, after)


def _laid_out(data: dict[str, object], like: str) -> str:
    """The JSON text of `data`, indented and ended as another text is."""
    indented = re.search(r"[{\[,]\r?\n([ \t]+)\S", like)
    indent = indented[1] if indented else None if like.strip() else 2
    text = json.dumps(data, indent=indent, ensure_ascii=False, allow_nan=False)
    # A lone surrogate is no UTF-8: it stays the escape that it was read from.
    text = re.sub("[\ud800-\udfff]", lambda found: f"\\u{ord(found[0]):04x}", text)
    end = re.search(r"\s*\Z", like)
    text += end[0] if end and like.strip() else "\n"
    return re.sub(r"\r?\n", "\r\n", text) if "\r\n" in like else text


def _replace(path: Path, content: bytes) -> None:
    """Put new content in a file's place: all of it or none, on the disk when this returns."""
    before = path.stat() if path.exists() else None
    if before and not os.access(path, os.W_OK):
        raise PermissionError(None, "it is read-only")
    temporary = path.with_name(f".{path.name[:100]}.{uuid.uuid4().hex}.tmp")
    try:
        # A file that others may not read is not readable to them under its temporary name either.
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if before else 0o666)
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if before:
            _keep_owner_and_mode(temporary, before)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def _keep_owner_and_mode(path: Path, before: os.stat_result) -> None:
    if sys.platform != "win32":
        # Only the superuser can give a file away; for anyone else it is their own already.
        with contextlib.suppress(PermissionError):
            os.chown(path, before.st_uid, before.st_gid)
    path.chmod(stat.S_IMODE(before.st_mode))


def _sync_folder(path: Path) -> None:
    """Make a rename last. Not every system lets a folder be opened for that."""
    with contextlib.suppress(OSError):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


# ---------------------------------------------------------------- locks


def _lock_name(path: Path) -> Path:
    return path.with_name(f"{path.name}.lock")


def _is_held(lock: Path) -> bool:
    try:
        return time.time() - lock.stat().st_mtime <= _LOCK_STALE_SECONDS
    except (OSError, ValueError):
        return False


@contextlib.contextmanager
def _locked(names: set[Path]) -> Generator[None]:
    """Hold a file under all its names: no other writer of ours, and no pi, changes it meanwhile.

    pi's lock alone would not do: two processes that both find it abandoned can both end up holding it. So
    ours also lock the folder with the system's own lock, which ends with its process. Folders before files,
    each in order, so that two writers never wait for one another.
    """
    deadline = time.monotonic() + _LOCK_PATIENCE_SECONDS
    with contextlib.ExitStack() as stack:
        for folder in sorted({name.parent for name in names}):
            stack.enter_context(_folder_lock(folder, deadline))
        for name in sorted(names):
            stack.enter_context(_pi_lock(_lock_name(name), deadline))
        yield


@contextlib.contextmanager
def _pi_lock(lock: Path, deadline: float) -> Generator[None]:
    while True:
        try:
            lock.mkdir()
            break
        except FileExistsError:
            if lock.exists() and not _is_held(lock):
                _clear(lock)
                continue
        _wait(deadline, f"another program holds {lock}")
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            lock.rmdir()


def _clear(lock: Path) -> None:
    try:
        lock.rmdir()
    except FileNotFoundError:
        pass
    except OSError:
        raise FileExistsError(None, f"{lock} is in the way, and is no lock: remove it") from None


def _wait(deadline: float, why: str) -> None:
    if time.monotonic() > deadline:
        raise TimeoutError(None, why)
    time.sleep(_LOCK_POLL_SECONDS)


@contextlib.contextmanager
def _folder_lock(folder: Path, deadline: float) -> Generator[None]:
    if sys.platform == "win32":  # no such lock on a folder: pi's has to do
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        while not _has_locked(handle):
            _wait(deadline, f"another program is writing in {folder}")
        yield
    finally:
        os.close(handle)


def _has_locked(handle: int) -> bool:
    import fcntl  # here, because Windows has none

    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        # A file system without such locks: pi's has to do.
        return True
    return True
