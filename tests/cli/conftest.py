"""A home of its own for each test, sessions to look at, and ways to run the program on them."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.cli.support import Done, Run, RunOnTerminal, RunProcess, Sample, Terminal

from prunewise.cli import main


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of its own, without settings; no colours and no width from outside."""
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    for name in (
        "PI_CODING_AGENT_DIR",
        "COLUMNS",
        "NO_COLOR",
        "FORCE_COLOR",
        "PRUNEWISE_DEBUG",
        "PYTHONIOENCODING",
    ):
        monkeypatch.delenv(name, raising=False)
    return folder


@pytest.fixture
def sample(tmp_path: Path) -> Sample:
    """An empty session in a folder of its own."""
    folder = tmp_path / "project"
    folder.mkdir()
    return Sample(folder / "session.jsonl", str(folder))


@pytest.fixture
def duplicates(sample: Sample) -> Sample:
    """A file is read twice, and both reads are old by now: the first one may go, and that pays."""
    sample.user("look")
    sample.read("call_first")
    sample.read("call_second")
    sample.turns(5)
    return sample


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]) -> Run:
    """Runs the program in this process."""

    def run(*arguments: object) -> Done:
        capfd.readouterr()
        code = main([str(argument) for argument in arguments])
        return Done(code, *capfd.readouterr())

    return run


@pytest.fixture
def run_process() -> RunProcess:
    """Runs the program in a process of its own."""

    def run_process(
        *arguments: object, env: dict[str, str] | None = None, **options: Any
    ) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [sys.executable, "-m", "prunewise", *map(str, arguments)],
            env={**os.environ, **(env or {})},
            check=False,
            timeout=60,
            **{"capture_output": True, "stdin": subprocess.DEVNULL, **options},
        )

    return run_process


@pytest.fixture
def run_on_terminal() -> RunOnTerminal:
    """Runs the program on a terminal of 80 columns, and types the answers when it asks."""
    pty = pytest.importorskip("pty")
    import fcntl
    import select
    import struct
    import termios
    import time

    def run_on_terminal(
        *arguments: object, answers: Sequence[bytes] = (), env: dict[str, str] | None = None
    ) -> Terminal:
        leader, follower = pty.openpty()
        fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 80, 0, 0))
        process = subprocess.Popen(
            [sys.executable, "-m", "prunewise", *map(str, arguments)],
            stdin=follower,
            stdout=follower,
            stderr=follower,
            env={**os.environ, "TERM": "xterm-256color", **(env or {})},
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509 - for Ctrl-C
        )
        os.close(follower)
        shown, waiting, end = b"", list(answers), time.monotonic() + 60
        while time.monotonic() < end:
            if select.select([leader], [], [], 0.05)[0]:
                try:
                    piece = os.read(leader, 65536)
                except OSError:  # the other side is closed
                    break
                if not piece:
                    break
                shown += piece
            if waiting and shown.endswith((b"): ", b"[y/N] ")):
                os.write(leader, waiting.pop(0))
                shown += b" "
        process.wait(timeout=60)
        os.close(leader)
        return Terminal(process.returncode, shown.decode())

    return run_on_terminal
