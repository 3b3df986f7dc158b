"""`prunewise` alone: what it finds, and how to go on."""

import json
import os
import shutil
from pathlib import Path

import pytest
from tests.cli.support import Run

from prunewise.stores.pi_session import PiSession

NOTHING = """\
No coding agent's sessions were found in their usual places.

Policy for pi: documented, gate on, masking on (the defaults).
The extension is not in pi, so nothing is pruned there.

Go on with the sample session of a checkout, or with files of your own:
  prunewise plan examples/session.jsonl
  prunewise benchmark examples/session.jsonl
  prunewise pi install
"""


@pytest.fixture(autouse=True)
def _no_other_folders(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "300")


def keep(path: Path, *, age: int = 0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("no session at all")
    os.utime(path, (1_000_000 - age, 1_000_000 - age))
    return path


def test_nothing_found_names_the_sample(run: Run):
    assert run() == (0, NOTHING, "")


def test_an_agent_without_sessions_is_not_found(run: Run, home: Path):
    (home / ".claude" / "projects").mkdir(parents=True)
    assert run() == (0, NOTHING, "")


def test_agents_their_sessions_and_the_newest_of_pi_are_named(run: Run, home: Path):
    newest = keep(home / ".pi/agent/sessions/--a--/new one.jsonl")
    keep(home / ".pi/agent/sessions/--b--/old.jsonl", age=60)
    keep(home / ".claude/projects/x/one.jsonl")
    keep(home / ".local/share/opencode/opencode.db")
    done = run()
    assert (done.code, done.err) == (0, "")
    found = [line.split() for line in done.out.splitlines()[2:5]]
    assert found == [
        ["pi", "2", f"{home}/.pi/agent/sessions"],
        ["claude-code", "1", f"{home}/.claude/projects"],
        ["opencode", "1", "database", f"{home}/.local/share/opencode"],
    ]
    assert done.out.endswith(
        "Go on with:\n"
        "  prunewise benchmark --html report.html\n"
        f"  prunewise plan '{newest}'\n"
        "  prunewise pi install\n"
    )


def test_without_a_session_of_pi_the_plan_is_that_of_the_sample(run: Run, home: Path):
    keep(home / ".codex/sessions/2026/01/02/rollout-x.jsonl")
    assert run().out.endswith(
        "  prunewise benchmark --html report.html\n"
        "  prunewise plan examples/session.jsonl\n"
        "  prunewise pi install\n"
    )


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"gate": {"mode": "off"}}, "documented, gate off, masking on"),
        ({"policy": "priced"}, "priced, masking on"),
        ({"enabled": False}, "strategies off, masking on"),
    ],
)
def test_the_policy_is_that_of_pis_settings(run: Run, home: Path, settings: dict[str, object], words: str):
    file = keep(home / ".pi/agent/extensions/dynamic-context-pruning.json")
    file.write_text(json.dumps(settings))
    out = " ".join(run().out.split())
    assert f"Policy for pi: {words} (set in {file})." in out


def test_masking_is_that_of_pis_settings(run: Run, home: Path):
    keep(home / ".pi/agent/settings.json").write_text('{"pruning": {"enabled": false}}')
    assert "documented, gate on, masking off" in run().out


def test_broken_settings_are_a_warning(run: Run, home: Path):
    keep(home / ".pi/agent/extensions/dynamic-context-pruning.json").write_text("{")
    done = run()
    assert done.code == 0
    assert done.err.startswith("warning: ")


def test_an_extension_that_is_there_is_examined_next(run: Run, home: Path):
    assert run("pi", "install").code == 0
    done = run()
    assert "The extension is in pi.\n" in done.out
    assert done.out.endswith("  prunewise pi doctor\n")
    shutil.rmtree(home / ".pi")


def test_no_session_is_opened(run: Run, home: Path, monkeypatch: pytest.MonkeyPatch):
    def refuse(*_: object) -> None:
        raise AssertionError

    keep(home / ".pi/agent/sessions/--a--/one.jsonl").chmod(0)
    monkeypatch.setattr(PiSession, "open", refuse)
    assert run().code == 0
