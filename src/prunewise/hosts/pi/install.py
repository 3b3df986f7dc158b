"""Putting the extension into pi, taking it out again, and finding out what is wrong.

What is installed is one small file, `extensions/prunewise/index.ts`, in pi's agent folder or in a
project's `.pi`. It names the interpreter and loads the extension from this package. Nothing else in
pi's folders is touched.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import msgspec
from msgspec import Struct

from prunewise.errors import InputError, PrunewiseError
from prunewise.hosts.pi.protocol import Halves
from prunewise.stores import settings_files

EXTENSION = Path(__file__).parent / "extension" / "index.ts"
"""The extension itself, which the installed file loads."""

_MARK = "// Written by `prunewise pi install`"
_PROJECT = ".pi"
_LONGEST_READ = 2**20

_STUB = """\
{mark}; `prunewise pi uninstall` takes it away.
const options = {options};
const extension = {extension};

export default async function (pi) {{
	try {{
		const {{ prunewise }} = await import(extension);
		prunewise(options)(pi);
	}} catch (error) {{
		// Python, or the package in it, is not where it was: pi goes on without.
		const reason = error instanceof Error ? error.message.split("\\n")[0] : String(error);
		const text =
			`prunewise: requests go out unpruned: ${{extension}} cannot be loaded (${{reason}}). ` +
			"Run `prunewise pi install` with the prunewise that is there now, or `prunewise pi uninstall`.";
		pi.on("session_start", (_event, ctx) => {{
			if (ctx.hasUI) ctx.ui.notify(text, "warning");
			else process.stderr.write(`${{text}}\\n`);
		}});
	}}
}}
"""


class Installed(Struct, frozen=True):
    """What `install` did."""

    path: Path
    halves: Halves
    changed: bool
    """Whether the file is another than before."""
    because: str
    """Why these halves are on."""


def folder(project: Path | None = None, environ: Mapping[str, str] | None = None) -> Path:
    """Where the extension is installed: in pi's agent folder, or in a project's `.pi`."""
    base = settings_files.agent_dir(environ) if project is None else project / _PROJECT
    return base / "extensions" / "prunewise"


def install(project: Path | None = None, environ: Mapping[str, str] | None = None) -> Installed:
    """Install the extension for the interpreter that runs this; once more is as good as once.

    Raises:
        PrunewiseError: the file cannot be written, or another one of this name is there.
    """
    halves, because = _halves(project, environ)
    options = {"python": sys.executable, **msgspec.to_builtins(halves)}
    text = _STUB.format(
        mark=_MARK, options=json.dumps(options, indent="\t"), extension=json.dumps(str(EXTENSION))
    )
    path = folder(project, environ) / "index.ts"
    before = text_of(path)
    if before is not None and not before.startswith(_MARK):
        message = f"{path}: is not of prunewise, and is left alone: move it away first"
        raise InputError(message)
    if before != text:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary = path.with_name(f".{path.name}.{os.getpid()}")
            temporary.write_text(text, encoding="utf-8")
            temporary.replace(path)
        except OSError as error:
            message = f"{path}: cannot be written, {(error.strerror or str(error)).lower()}"
            raise PrunewiseError(message) from error
    return Installed(path, halves, before != text, because)


def set_policy(policy: str | None, *, masking: bool | None, project: Path | None = None) -> None:
    """Write what pi is to prune by into its settings files.

    Args:
        policy: `documented`, `priced`, or `none` for no strategies; None leaves them as they are.
        masking: whether masking is on; None leaves it as it is.
        project: whose settings of masking to write, where it has any of its own.

    Raises:
        SettingsError: a file cannot be read or written.
    """
    values: dict[str, object] = {}
    if policy is not None:
        values["enabled"] = policy != "none"
    if policy not in (None, "none"):
        values["policy"] = policy
    if masking is not None:
        values["pruning.enabled"] = masking
    for key, value in values.items():
        settings_files.write(settings_files.file_of(key, project), key, value)


def uninstall(project: Path | None = None, environ: Mapping[str, str] | None = None) -> tuple[Path, bool]:
    """Take the extension away: where it was, and whether it was there.

    Raises:
        PrunewiseError: it cannot be taken away, or is not of prunewise.
    """
    path = folder(project, environ) / "index.ts"
    before = text_of(path)
    if before is None:
        return path, False
    if not before.startswith(_MARK):
        message = f"{path}: is not of prunewise, and is left alone"
        raise InputError(message)
    try:
        path.unlink()
        if not any(path.parent.iterdir()):
            path.parent.rmdir()
    except OSError as error:
        message = f"{path}: cannot be removed, {(error.strerror or str(error)).lower()}"
        raise PrunewiseError(message) from error
    return path, True


def _halves(project: Path | None, environ: Mapping[str, str] | None) -> tuple[Halves, str]:
    """The halves whose settings there are; both where there are none of either."""
    strategies = settings_files.extension_file(environ)
    files = [settings_files.global_file(environ)]
    if project is not None:
        files.append(settings_files.project_file(project))
    masking = next((path for path in files if "pruning" in object_in(path)), None)
    if strategies.exists() and masking is None:
        return Halves(masking=False), f"only {strategies} is there"
    if masking is not None and not strategies.exists():
        return Halves(strategies=False), f"only {masking} has settings"
    return Halves(), "there are settings of both" if masking else "there are settings of neither"


def object_in(path: Path) -> Mapping[str, Any]:
    """The JSON object that a file holds; an empty one where it holds none."""
    try:
        value: object = json.loads(text_of(path) or "{}")
    except ValueError:
        return {}
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def text_of(path: Path) -> str | None:
    """What a file holds, as far as it is of interest; None where it is missing."""
    try:
        with path.open("rb") as file:
            return file.read(_LONGEST_READ).decode("utf-8-sig", "replace")
    except OSError:
        return None
