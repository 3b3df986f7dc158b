"""What is installed in pi, whether it works, and what is in its way: looked at, never changed."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, cast

import msgspec
from msgspec import Struct

from prunewise import __version__, shell
from prunewise.hosts.pi import install
from prunewise.hosts.pi.protocol import VERSION
from prunewise.replay import outcome
from prunewise.stores import settings_files

PYTHON_VARIABLE = "PRUNEWISE_PYTHON"
"""Names the interpreter that the extension uses before the one that it was installed with."""

_PI = "@earendil-works/pi-coding-agent"
_OLDEST_NODE = (22, 19)
_SECONDS = 10.0
_SLOW = 2.0
_MOST_FILES = 200
_OPTIONS = re.compile(r"^const options = (\{.*?^\});$", re.MULTILINE | re.DOTALL)
_LOADED = re.compile(r'^const extension = (".*");$', re.MULTILINE)
_COMMAND = re.compile(r"""registerCommand\(\s*["'`](prune|pruning|context-pruning)["'`]""")
_RECALL = re.compile(r"""["'`]recall["'`]""")
_RECALL_TOOL = "tool recall"
_LEDGER = re.compile(r"dynamic-context-pruning:(?:decision|restore)")
_OURS = re.compile(r"[:/]prunewise(-pi)?(?![\w-])")
_OUR_PACKAGES = ("prunewise-pi", "prunewise-repository")
_BY_NAME = re.compile(r"prun|diegopetrucci/pi-extensions", re.IGNORECASE)


class Program(Struct, frozen=True):
    """A program on PATH."""

    path: str
    version: str


class Place(Struct, frozen=True):
    """An installed extension, and what it names."""

    scope: Literal["global", "project"]
    path: str
    """The file that the installer wrote, or a pi package as pi's settings name it."""
    python: str
    """The program that starts the engine; empty where there is none."""
    extension: str
    strategies: bool = True
    masking: bool = True
    package: bool = False


class Handshake(Struct, frozen=True):
    """Whether the engine process answers; `seconds` from its start to its first answer."""

    command: list[str]
    seconds: float
    version: str = ""
    problem: str = ""


class Other(Struct, frozen=True):
    """Another extension that prunes, and what it has in common with this one."""

    path: str
    conflicts: list[str]


class Report(Struct, frozen=True):
    """Everything that was found."""

    prunewise: str
    python: str
    agent_dir: str
    pi: Program | None
    node: Program | None
    installed: list[Place]
    handshake: Handshake | None
    others: list[Other]
    policy: str
    """What decides in pi: `documented` or `priced`."""
    notes: list[str]
    """What is good to know, and is no fault."""
    problems: list[str]
    """What is wrong, in one line each, with what to do."""


def examine(cwd: Path, environ: Mapping[str, str] | None = None) -> Report:
    """Look at pi as it would start in a folder."""
    environ = os.environ if environ is None else environ
    installed = list(_installed(cwd, environ))
    pi, node = _pi(environ), _node(environ)
    handshake = _handshake(installed[0], environ) if installed and installed[0].python else None
    others = others_in(cwd, environ)
    loaded = settings_files.load(cwd, environ=environ)
    problems = [
        *_about_programs(pi, node),
        *_about_places(installed),
        *_about_handshake(handshake),
        *map(about_other, others),
        *loaded.warnings,
    ]
    folder, policy = settings_files.agent_dir(environ), loaded.settings.policy
    notes = [*_about_folder(folder), *_about_policy(policy)]
    return Report(
        __version__,
        sys.executable,
        str(folder),
        pi,
        node,
        installed,
        handshake,
        others,
        policy,
        notes,
        problems,
    )


def _about_folder(folder: Path) -> Iterator[str]:
    """What a folder means that may only be read; one that is not there yet can be made by pi."""
    if folder.exists() and not os.access(folder, os.W_OK):
        yield (
            f"{folder} cannot be written to: what a command in pi sets holds for its session only, and "
            "the extension can be neither installed there nor removed"
        )


def _about_policy(policy: str) -> Iterator[str]:
    problem = shell.problem()
    if policy == "documented":
        yield outcome.advice(outcome.last(outcome.cache_folder()))
    elif problem is not None:
        yield problem


# ---------------------------------------------------------------- programs


def _pi(environ: Mapping[str, str]) -> Program | None:
    found = shutil.which("pi", path=environ.get("PATH"))
    if found is None:
        return None
    for folder in Path(found).resolve().parents:
        package = install.object_in(folder / "package.json")
        if package.get("name") == _PI:
            return Program(found, str(package.get("version", "")))
    return Program(found, "")


def _node(environ: Mapping[str, str]) -> Program | None:
    found = shutil.which("node", path=environ.get("PATH"))
    if found is None:
        return None
    try:
        done = subprocess.run(  # noqa: S603
            [found, "--version"], capture_output=True, text=True, timeout=_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return Program(found, "")
    return Program(found, done.stdout.strip().removeprefix("v"))


def _about_programs(pi: Program | None, node: Program | None) -> Iterator[str]:
    if pi is None:
        yield f"there is no `pi` on PATH: npm install -g {_PI}"
    if pi is not None and node is None:
        yield "there is no `node` on PATH, which pi needs"
    if node is not None:
        numbers = tuple(int(number) for number in re.findall(r"\d+", node.version)[:2])
        if numbers and numbers < _OLDEST_NODE:
            yield f"Node {node.version} is too old for pi, which needs 22.19 or newer"


# ---------------------------------------------------------------- the extension


def _installed(cwd: Path, environ: Mapping[str, str]) -> Iterator[Place]:
    scopes: tuple[tuple[Literal["global", "project"], Path], ...] = (
        ("global", install.folder(None, environ)),
        ("project", install.folder(cwd)),
    )
    for scope, folder in scopes:
        path = folder / "index.ts"
        text = install.text_of(path)
        if text is None:
            continue
        options = _decoded(_OPTIONS.search(text))
        loaded = _LOADED.search(text)
        yield Place(
            scope,
            str(path),
            str(options.get("python", "")),
            json.loads(loaded[1]) if loaded else "",
            options.get("strategies") is not False,
            options.get("masking") is not False,
        )
    for scope, base, settings in _settings(cwd, environ):
        for source in _strings(install.object_in(settings).get("packages")):
            if _is_ours(base, source):
                python = environ.get(PYTHON_VARIABLE) or shutil.which("prunewise", path=environ.get("PATH"))
                yield Place(scope, source, python or "", source, package=True)


def _settings(
    cwd: Path, environ: Mapping[str, str]
) -> tuple[tuple[Literal["global", "project"], Path, Path], ...]:
    """The settings files of pi, each with its scope and the folder that its paths start from."""
    return (
        ("global", settings_files.agent_dir(environ), settings_files.global_file(environ)),
        ("project", cwd / ".pi", settings_files.project_file(cwd)),
    )


def _is_ours(base: Path, source: str) -> bool:
    """Whether a pi package is this extension."""
    if (base / source).is_dir():
        return install.object_in(base / source / "package.json").get("name") in _OUR_PACKAGES
    return _OURS.search(source) is not None


def _decoded(found: re.Match[str] | None) -> Mapping[str, Any]:
    if found is None:
        return {}
    try:
        return cast("dict[str, Any]", json.loads(found[1]))
    except ValueError:
        return {}


def _about_places(installed: Sequence[Place]) -> Iterator[str]:
    if not installed:
        yield "the extension is not installed: run `prunewise pi install`"
    if len(installed) > 1:
        paths = ", ".join(place.path for place in installed)
        yield (
            f"the extension is installed twice ({paths}), and only one prunes: "
            "`prunewise pi uninstall`, with or without --project, or `pi remove` takes one away"
        )
    for place in installed:
        if place.package:
            if not place.python:
                advice = f"set {PYTHON_VARIABLE}, or have `prunewise` on PATH"
                yield f"{place.path}: no Python is known to it: {advice}"
            continue
        for what, path in (("the interpreter", place.python), ("the extension", place.extension)):
            if not path or not Path(path).exists():
                yield f"{place.path}: {what} is not there any more ({path}): run `prunewise pi install` again"


def _launch(place: Place, environ: Mapping[str, str]) -> list[str]:
    """The command line by which the extension starts the engine."""
    python = environ.get(PYTHON_VARIABLE) or place.python
    if place.package and PYTHON_VARIABLE not in environ:
        return [python, "pi", "engine"]
    return [python, "-P", "-u", "-m", "prunewise.hosts.pi"]


def _handshake(place: Place, environ: Mapping[str, str]) -> Handshake:
    """Start the engine as the extension does, and say hello."""
    command = _launch(place, environ)
    params = {
        "protocol": VERSION,
        "cwd": ".",
        "header": {"type": "session", "id": "doctor"},
    }
    line = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "hello", "params": params})
    started = time.monotonic()
    try:
        done = subprocess.run(  # noqa: S603
            command,
            input=f"{line}\n",
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            env=dict(environ),
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Handshake(command, time.monotonic() - started, problem=str(error))
    seconds = time.monotonic() - started
    try:
        answer = msgspec.json.decode(done.stdout.split("\n", 1)[0])
        return Handshake(command, seconds, version=str(answer["result"]["version"]))
    except (msgspec.MsgspecError, LookupError, TypeError):
        said = (done.stdout.strip() or done.stderr.strip()).split("\n")[-1]
        return Handshake(command, seconds, problem=said or f"it ended with exit code {done.returncode}")


def _about_handshake(handshake: Handshake | None) -> Iterator[str]:
    if handshake is None:
        return
    if handshake.problem:
        yield f"the engine does not answer ({handshake.problem}): run `prunewise pi install` again"
    elif handshake.version != __version__:
        versions = f"the engine is prunewise {handshake.version}, this is {__version__}"
        yield f"{versions}: run `prunewise pi install` again"
    elif handshake.seconds > _SLOW:
        took = f"the engine took {handshake.seconds:.1f} s to answer"
        yield f"{took}, so that the first requests may go out unpruned"


# ---------------------------------------------------------------- others


def others_in(cwd: Path, environ: Mapping[str, str] | None = None) -> list[Other]:
    """The other extensions that prune, or have tools or commands of the same names, in pi as it would start
    in a folder.
    """
    return list(_others(cwd, os.environ if environ is None else environ))


def about_other(other: Other) -> str:
    """What another extension means for this one, and what to do."""
    has = ", ".join(other.conflicts)
    if _RECALL_TOOL in other.conflicts:
        return (
            f"{other.path} has a tool recall too ({has}), so prunewise does nothing: have one of the two only"
        )
    return f"{other.path} prunes too ({has}): have one of the two only"


def _others(cwd: Path, environ: Mapping[str, str]) -> Iterator[Other]:
    ours = {install.folder(None, environ), install.folder(cwd)}
    for _, base, settings in _settings(cwd, environ):
        paths = sorted((base / "extensions").glob("*"))
        given = install.object_in(settings)
        for name in _strings(given.get("extensions")):
            paths.append(base / name)
        for source in _strings(given.get("packages")):
            if _is_ours(base, source):
                continue
            local = base / source
            if local.exists():
                paths.append(local)
            elif _BY_NAME.search(source):
                yield Other(source, ["by its name"])
        for path in paths:
            if path not in ours and path.resolve() not in ours:
                conflicts = _conflicts(path)
                if conflicts:
                    yield Other(str(path), conflicts)


def _conflicts(path: Path) -> list[str]:
    """What the code under a path has that is ours too."""
    files = [path] if path.is_file() else _code(path)
    found: dict[str, None] = {}
    for file in files:
        if file.suffix not in (".ts", ".js", ".mjs", ".cjs"):
            continue
        text = install.text_of(file) or ""
        found.update((f"command /{name}", None) for name in _COMMAND.findall(text))
        if _RECALL.search(text) and "registerTool" in text:
            found[_RECALL_TOOL] = None
        if _LEDGER.search(text):
            found["its session entries"] = None
    return list(found)


def _code(folder: Path) -> list[Path]:
    files: list[Path] = []
    for root, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in ("node_modules", ".git"))
        files += [Path(root, name) for name in sorted(names)]
        if len(files) > _MOST_FILES:
            break
    return files[:_MOST_FILES]


def _strings(value: object) -> list[str]:
    """The strings of a list of strings and of objects with a `source`."""
    found: list[str] = []
    for one in cast("list[object]", value) if isinstance(value, list) else []:
        source = cast("dict[str, object]", one).get("source") if isinstance(one, dict) else one
        if isinstance(source, str):
            found.append(source)
    return found
