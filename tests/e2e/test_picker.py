"""`prunewise prune` on a real terminal, in tmux: its picker, and what is in the session's file then."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.picker.support import ledger_of
from tests.e2e.tmux import Tmux

SAMPLE = Path(__file__).resolve().parents[2] / "examples" / "session.jsonl"
MANUAL = "manual:tool_result_content"

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(shutil.which("tmux") is None, reason="needs tmux"),
]

SETTLED = 0.7
"""Seconds in which a program has taken a key in."""


@pytest.fixture
def session(tmp_path: Path) -> Path:
    return shutil.copy(SAMPLE, tmp_path / "session.jsonl")


@pytest.fixture(params=[(80, 24), (160, 50)], ids=["80x24", "160x50"])
def terminal(request: pytest.FixtureRequest, session: Path) -> Iterator[Tmux]:
    columns, rows = request.param
    home = session.parent
    variables = {"HOME": str(home), "PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
    program = [sys.executable, "-m", "prunewise", "prune", session.name]
    # The shell behind it keeps the terminal open, so that what is left on it can be seen.
    command = ["sh", "-c", '"$@"; echo "ended with $?"; exec sleep 600', "sh", *program]
    shown = Tmux(command, home, variables, columns=columns, rows=rows)
    yield shown
    shown.close()


def test_open_filter_look_prune_restore_undo_quit(session: Path, terminal: Tmux):
    before = session.read_bytes()
    terminal.until(lambda screen: "14 listed, 0 pruned" in screen and "context " in screen)
    terminal.key("/")
    terminal.write("read routes")
    terminal.until(lambda screen: "pantry/routes.py" in screen and "pytest -v" not in screen)
    for key in ("Enter", "End", "Enter"):
        time.sleep(SETTLED)  # the focus moves behind the key
        terminal.key(key)
    terminal.until(lambda screen: "── marker" in screen and "HTTP routes of the pantry" in screen)
    terminal.key("Tab")
    terminal.key("p")
    terminal.until(lambda screen: "1 prune would take 1,395 tokens" in screen)
    terminal.key("y")
    terminal.until(lambda screen: "14 listed, 1 pruned: 1,395 tokens" in screen)
    terminal.key("r")
    terminal.until(lambda screen: "Restoring puts 1,395 tokens back" in screen)
    terminal.key("y")
    terminal.until(lambda screen: "14 listed, 0 pruned" in screen and "restored" in screen)
    terminal.key("u")
    terminal.until(lambda screen: "Undo the last batch" in screen)
    terminal.key("Enter")
    terminal.until(lambda screen: "14 listed, 1 pruned: 1,395 tokens" in screen)
    terminal.key("q")
    left = terminal.until(lambda screen: "ended with 0" in screen)
    assert left.count("Added ") == 3  # on the terminal as it was before
    assert session.read_bytes().startswith(before)
    assert [what for what, _ in ledger_of(session)] == ["prune", "restore", "prune"]
    assert {key.rsplit("_", 1)[0] for _, key in ledger_of(session)} == {f"{MANUAL}:toolu"}


def test_ctrl_c_leaves_the_file_and_the_terminal_as_they_were(session: Path, terminal: Tmux):
    before = session.read_bytes()
    terminal.until(lambda screen: "14 listed" in screen)
    terminal.key("Space")
    terminal.key("p")
    terminal.until(lambda screen: "1 prune would take" in screen)
    terminal.key("C-c")
    left = terminal.until(lambda screen: "ended with 0" in screen)
    assert "Nothing was changed." in left
    assert "listed" not in left
    assert session.read_bytes() == before


@pytest.mark.parametrize(("signal", "code"), [("TERM", 143), ("HUP", 129)])
def test_a_signal_ends_it_as_a_key_would(session: Path, terminal: Tmux, signal: str, code: int):
    terminal.until(lambda screen: "14 listed" in screen)
    assert terminal.modes == "1 1 0"
    terminal.key("p", "y")
    terminal.until(lambda screen: "14 listed, 1 pruned" in screen)
    subprocess.run(["pkill", f"-{signal}", "-f", f"prune {session.name}$", "-P", terminal.shell], check=True)
    left = terminal.until(lambda screen: f"ended with {code}" in screen)
    assert left.count("Added ") == 1
    assert "listed" not in left
    assert terminal.modes == "0 0 1"


def test_what_is_typed_ahead_of_the_program_is_taken_in_order(terminal: Tmux):
    terminal.until(lambda screen: "14 listed" in screen)
    terminal.key("/", *"read", "Enter", "a", "p")
    terminal.until(lambda screen: "4 prunes would take" in screen)
