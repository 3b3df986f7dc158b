"""How far a long run is, on stderr: a bar on a terminal, a plain line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from prunewise.cli.console import complain
from prunewise.wording import count

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

EVERY_SECONDS = 10.0
"""Between two plain lines; a run that is over before has none."""
_FEW = 10
"""Below so many sessions a second the tenths tell something."""


class Pace:
    """What has been done of so many bytes, and how fast."""

    def __init__(self) -> None:
        self.files = self.size = 0
        self.done_files = self.done_size = 0
        self.sessions = self.left_out = 0
        self.workers = 1
        self._start = time.monotonic()

    def begin(self, files: int, size: int, workers: int) -> None:
        """The run starts now."""
        self.files, self.size, self.workers = files, size, workers
        self._start = time.monotonic()

    def step(self, size: int, sessions: int, left_out: int) -> None:
        """A file is done."""
        self.done_files += 1
        self.done_size += size
        self.sessions += sessions
        self.left_out += left_out

    @property
    def seconds(self) -> float:
        """Since the start."""
        return time.monotonic() - self._start

    def rate(self) -> str:
        """Bytes and sessions a second."""
        seconds = max(self.seconds, 1e-3)
        sessions = self.sessions / seconds
        digits = 1 if sessions < _FEW else 0
        return f"{self.done_size / 1e6 / seconds:.1f} MB/s, {sessions:,.{digits}f} sessions/s"

    def left(self) -> str:
        """The time that is left at this pace; empty where it cannot be known."""
        if not self.done_size:
            return ""
        seconds = round((self.size - self.done_size) * self.seconds / self.done_size)
        minutes, seconds = divmod(seconds, 60)
        hours, minutes = divmod(minutes, 60)
        return f"{hours}:{minutes:02}:{seconds:02} left" if hours else f"{minutes}:{seconds:02} left"

    def line(self) -> str:
        """All of it."""
        said = (
            f"{self.done_files:,} of {count(self.files, 'file')}, "
            f"{self.done_size / 1e6:,.0f} of {self.size / 1e6:,.0f} MB, {self.rate()}"
        )
        left = self.left()
        return f"{said}, {left}" if left else said


class _Lines(Pace):
    """A plain line every so many seconds."""

    def __init__(self) -> None:
        super().__init__()
        self._said = 0.0

    def step(self, size: int, sessions: int, left_out: int) -> None:
        """A file is done; a line if it is time."""
        super().step(size, sessions, left_out)
        if self.seconds - self._said >= EVERY_SECONDS:
            self._said = self.seconds
            complain(self.line())


class _Bar(Pace):
    """A bar that moves."""

    def __init__(self, progress: Progress) -> None:
        super().__init__()
        self._progress = progress
        self._task: TaskID | None = None

    def begin(self, files: int, size: int, workers: int) -> None:
        """The bar appears."""
        super().begin(files, size, workers)
        self._task = self._progress.add_task("", total=max(size, 1))

    def step(self, size: int, sessions: int, left_out: int) -> None:
        """A file is done."""
        super().step(size, sessions, left_out)
        if self._task is not None:
            self._progress.update(self._task, advance=size, description=self.line())


@contextmanager
def progress() -> Generator[Pace]:
    """Whoever is told how far the run is."""
    if sys.stderr is None or not sys.stderr.isatty():  # pyright: ignore[reportUnnecessaryComparison]
        yield _Lines()
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    columns = (BarColumn(bar_width=20), TextColumn("{task.description}", markup=False))
    with Progress(*columns, console=Console(stderr=True), transient=True, refresh_per_second=4) as shown:
        yield _Bar(shown)
