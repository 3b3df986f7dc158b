"""What the picker of `prunewise prune` takes to open a session of 4,000 messages, and to answer a key.

Starts the program on a pseudo-terminal of 160 columns and 50 rows, as a person would, and takes the time
from there to the first list, with Python's start and all imports; then, with the picker under Textual's
pilot in this process, the CPU time of what a key does, without the pilot's own waits. On a busy machine
the CPU times say more.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import pty
import statistics
import struct
import sys
import tempfile
import termios
import time
from collections.abc import Callable
from pathlib import Path

import psutil
from sessions import pi_messages, pi_session
from textual.geometry import Region

from prunewise.cli.desk import Desk
from prunewise.cli.picker.app import PickerApp
from prunewise.cli.picker.sitting import Sitting

MESSAGES = 4000
ROUNDS = 5
COLUMNS, ROWS = 160, 50
FIRST_PAINT = b"age is in LLM calls"
"""The last of what the first paint brings."""


def opening(path: Path) -> tuple[float, float]:
    """Seconds from the start of the program to its first paint: by the clock, and of CPU time."""
    pid, terminal = pty.fork()
    if not pid:
        os.environ["TERM"] = "xterm-256color"
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        os.execv(sys.executable, [sys.executable, "-m", "prunewise", "prune", str(path)])
    began = time.perf_counter()
    shown = b""
    while FIRST_PAINT not in shown:
        shown += os.read(terminal, 65536)
    took = time.perf_counter() - began
    spent = psutil.Process(pid).cpu_times()
    os.write(terminal, b"q")
    try:
        while os.read(terminal, 65536):
            pass
    except OSError:
        pass  # it has closed the terminal
    os.waitpid(pid, 0)
    os.close(terminal)
    return took, spent.user + spent.system


async def answering(path: Path) -> dict[str, list[float]]:
    """Seconds of CPU time for each thing that a key does, with the drawing of the whole list and output."""
    app = PickerApp(Sitting(Desk.of(path)))
    took: dict[str, list[float]] = {}
    async with app.run_test(size=(COLUMNS, ROWS)) as pilot:
        await pilot.pause()
        screen = app.screen_stack[0]
        shown, look, field = (screen.query_one(name) for name in ("#list", "#look", "#filter"))

        async def timed(name: str, act: Callable[[], object]) -> None:
            began = time.process_time()
            act()
            for widget in (shown, look):
                widget.render_lines(Region(0, 0, *widget.size))
            took.setdefault(name, []).append(time.process_time() - began)
            await pilot.pause()

        for _ in range(20):
            await timed("one row down", lambda: shown.action_move(1))
        for _ in range(20):
            await timed("one page down", lambda: shown.action_page(1))
        await timed("to the end", lambda: shown.action_end(1))
        for word in ("r", "re", "rea", "read", "read s", "read sr", "read src", ""):
            with field.prevent(type(field).Changed):
                field.value = word
            await timed("a key in the filter", screen._show_list)  # noqa: SLF001 - what a key in the filter does
        for _ in range(6):
            await timed("sort", screen.action_sort)
        for _ in range(3):
            await timed("group", screen.action_group)
        await timed("select all, with the joint price", screen.action_select_all)
    return took


def main() -> None:
    """Print the figures."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "session.jsonl"
        path.write_bytes(b"\n".join(pi_session(pi_messages(MESSAGES))) + b"\n")
        opened = [opening(path) for _ in range(ROUNDS)]
        print(f"{path.stat().st_size / 1e6:.1f} MB, {MESSAGES:,} messages, first paint of {ROUNDS} starts:")
        for name, times in zip(("by the clock", "CPU time"), zip(*opened, strict=True), strict=True):
            print(
                f"  {name}: median {statistics.median(times):.2f} s, "
                f"least {min(times):.2f}, most {max(times):.2f}"
            )
        for name, times in asyncio.run(answering(path)).items():
            median, most = statistics.median(times), max(times)
            print(f"  {name}: median {median * 1000:.1f} ms, most {most * 1000:.1f} ms of CPU time")


if __name__ == "__main__":
    main()
