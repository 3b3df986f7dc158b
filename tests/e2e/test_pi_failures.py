"""The real pi with an engine that does not work: requests go out, nothing hangs, it is said once."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from tests.e2e.model_server import Answer, ModelServer
from tests.e2e.pi_agent import Pi

from prunewise.hosts.pi.install import EXTENSION

pytestmark = pytest.mark.e2e

FULL_DISK = """
import { existsSync } from "node:fs";
import { SessionManager } from "@earendil-works/pi-coding-agent";
export default function (pi) {
	const append = SessionManager.prototype.appendCustomEntry;
	SessionManager.prototype.appendCustomEntry = function (...args) {
		const full = process.env.FULL === "1" || existsSync(process.env.FULL ?? "");
		if (full) throw new Error("ENOSPC: no space left on device, write");
		return append.apply(this, args);
	};
}
"""
OTHER_VERSION = '{"id":1,"error":{"code":-32001,"message":"other versions"}}'


def reading_twice(pi: Pi, model: ModelServer) -> None:
    pi.pruning(protections={"recentTurns": 0})
    pi.write("a.txt", "a line of the file\n" * 200)
    model.script = [[("read", {"path": "a.txt"})], [("read", {"path": "a.txt"})], "Done."]


def installed(pi: Pi) -> Path:
    return pi.agent / "extensions" / "prunewise" / "index.ts"


def broken(pi: Pi, program: str) -> dict[str, str]:
    """The environment of an engine that is this program."""
    path = pi.project.parent / "broken"
    path.write_text(program)
    path.chmod(0o755)
    stub = installed(pi)
    stub.write_text(stub.read_text().replace(json.dumps(sys.executable), json.dumps(str(path))))
    return {"PATH": "/usr/bin:/bin"}


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("#!/bin/sh\necho no such module >&2; exit 1\n", "no such module"),
        ("#!/bin/sh\necho what is this; sleep 60\n", "is no answer"),
        ("#!/bin/sh\nexec sleep 60\n", "not answered"),
        (f"#!/bin/sh\nread line\necho '{OTHER_VERSION}'\nexec cat >/dev/null\n", "other versions"),
    ],
)
def test_an_engine_that_does_not_work_costs_little(pi: Pi, model: ModelServer, program: str, reason: str):
    reading_twice(pi, model)
    started = time.monotonic()
    done = pi.run("-p", "Read it twice.", **broken(pi, program), PRUNEWISE_DEADLINE_MS="1000")
    assert (done.returncode, done.stdout.strip()) == (0, "Done.")
    assert done.stderr.count("prunewise:") == 1
    assert reason in done.stderr
    assert model.asked[2].results["call_1_0"].startswith("a line")
    assert time.monotonic() - started < 60


def test_a_package_that_has_moved_is_told_once(pi: Pi, model: ModelServer):
    reading_twice(pi, model)
    stub = installed(pi)
    stub.write_text(stub.read_text().replace(str(EXTENSION), "/nowhere/index.ts"))
    done = pi.run("-p", "Read it twice.")
    assert (done.returncode, done.stdout.strip()) == (0, "Done.")
    assert done.stderr.count("prunewise:") == 1
    assert "Run `prunewise pi install`" in done.stderr


def test_without_installing_the_folder_is_a_package(pi: Pi, model: ModelServer):
    reading_twice(pi, model)
    shutil.rmtree(installed(pi).parent)
    folder = str(EXTENSION.parent)
    pi.say("Read it twice.", "-e", folder, PRUNEWISE_PYTHON=sys.executable)
    assert model.asked[2].results["call_1_0"].startswith("[prunewise")


def test_a_session_that_cannot_be_written_has_nothing_new_pruned(pi: Pi, model: ModelServer):
    (pi.agent / "extensions" / "full.ts").write_text(FULL_DISK)
    reading_twice(pi, model)
    done = pi.run("-p", "Read it twice.", FULL="1")
    assert done.stdout.strip() == "Done."
    assert "no space left" in done.stderr
    assert model.asked[2].results["call_1_0"].startswith("a line")
    assert pi.custom("decision") == []


def test_a_dead_engine_never_leaves_a_compaction_out(pi: Pi, model: ModelServer):
    pi.settings(compaction={"reserveTokens": 8000, "keepRecentTokens": 100})
    pi.write("a.txt", "".join(f"line {n} of the file, which is long\n" for n in range(1200)))
    model.script = [
        [("read", {"path": "a.txt"})],
        "Read.",
        Answer("More.", tokens=121_000),
        Answer("Fine.", tokens=121_000),
    ]
    with pi.rpc(PRUNEWISE_DEADLINE_MS="1500") as rpc:
        rpc.prompt("Read it.")
        rpc.prompt("And?")
        ended = [one for one in rpc.events if one["type"] == "compaction_end"]
        assert [one["aborted"] for one in ended] == [True]
        children = psutil.Process(rpc.process.pid).children(recursive=True)
        (engine,) = [one for one in children if "prunewise.hosts.pi" in one.cmdline()]
        os.kill(engine.pid, signal.SIGSTOP)
        rpc.prompt("And?")
        ended = [one for one in rpc.events if one["type"] == "compaction_end"]
        assert [bool(one["aborted"]) for one in ended][:2] == [True, False]
        assert rpc.close() < 10


def test_a_project_that_shadows_modules_is_not_imported(pi: Pi, model: ModelServer):
    reading_twice(pi, model)
    for name in ("msgspec.py", "json.py", "prunewise.py"):
        pi.write(name, "raise SystemExit('imported from the project')\n")
    pi.say("Read it twice.")
    assert model.asked[2].results["call_1_0"].startswith("[prunewise")


def test_installed_twice_only_one_prunes(pi: Pi, model: ModelServer):
    pi.install("--project")
    reading_twice(pi, model)
    done = pi.run("-p", "Read it twice.", "--approve")
    assert (done.returncode, done.stdout.strip()) == (0, "Done.")
    assert done.stderr.count("prunewise:") == 1
    assert "installed twice" in done.stderr
    assert model.asked[2].tools.count("recall") == 1
    assert model.asked[2].results["call_1_0"].startswith("[prunewise")
    assert len(pi.custom("decision")) == 1


def mounted(pi: Pi, folder: Path, options: str, then: str) -> None:
    """Have pi start where this folder is on a file system of its own, with these options."""
    folder.mkdir(exist_ok=True)
    copy = f"{folder}.copy"
    start = (
        f"cp -a {folder} {copy} && mount -t tmpfs -o {options} none {folder} && "
        f'cp -a {copy}/. {folder} && rm -r {copy} && {then} && exec "$@"'
    )
    pi.wrapper = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", start, "sh"]
    tried = [*pi.wrapper[:4], "mount", "-t", "tmpfs", "none", "/mnt"]
    if subprocess.run(tried, capture_output=True, check=False).returncode:
        pytest.skip("needs to mount in a name space of its own")


def test_settings_that_are_read_only(pi: Pi, model: ModelServer):
    """pi itself needs a folder that it can write to, and has it here."""
    reading_twice(pi, model)
    extensions = pi.agent / "extensions"
    mounted(pi, extensions, "size=2m", f"mount -o remount,ro {extensions}")
    with pi.rpc() as rpc:
        rpc.prompt("Read it twice.")
        assert model.asked[2].results["call_1_0"].startswith("[prunewise")
        done, warning = rpc.command("/context-pruning off")
        model.script = ["Fine."]
        rpc.prompt("And now?")
        assert rpc.close() < 10
    assert done == "Context pruning is off."
    assert warning.startswith("Not saved, so it holds for this session only:")
    assert model.asked[3].results["call_1_0"].startswith("a line")


@pytest.mark.parametrize("room", [0, 12])
def test_a_disk_that_is_full(pi: Pi, model: ModelServer, room: int):
    """Full from the start, or in mid-session: what goes out and how pi ends is as without the extension."""
    sessions = pi.agent / "sessions"
    filled = f"dd if=/dev/zero of={sessions}/filler bs=1k count={64 - room} 2>/dev/null || true"
    seen = []
    for arguments in ([], ["--no-extensions"]):
        reading_twice(pi, model)
        model.requests.clear()
        mounted(pi, sessions, "size=64k", f"({filled})")
        done = pi.run("-p", "Read it twice.", *arguments)
        assert done.stderr.count("prunewise:") <= 1
        seen.append((done.returncode, len(model.asked)))
    assert seen[0] == seen[1]
