"""A program on a real terminal: in a tmux of its own, whose keys and screen the test has."""

import shlex
import subprocess
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tests.e2e.pi_agent import PATIENCE


class Tmux:
    """One program, started with nothing but these variables."""

    def __init__(
        self,
        command: Sequence[str],
        folder: Path,
        variables: Mapping[str, str],
        *,
        columns: int = 150,
        rows: int = 50,
    ) -> None:
        self.socket = f"prunewise-{uuid.uuid4().hex[:12]}"
        given = [f"{key}={value}" for key, value in variables.items()]
        line = shlex.join(["env", "-i", *given, "TERM=xterm-256color", *command])
        size = ["-x", str(columns), "-y", str(rows)]
        self.tmux("new-session", "-d", "-s", "program", *size, "-c", str(folder), line)

    def tmux(self, *arguments: str) -> str:
        command = ["tmux", "-L", self.socket, "-f", "/dev/null", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout

    def close(self) -> None:
        self.tmux("kill-server")

    def key(self, *names: str) -> None:
        self.tmux("send-keys", "-t", "program", *names)

    def write(self, text: str) -> None:
        """Type a text as it stands, without Enter."""
        self.tmux("send-keys", "-t", "program", "-l", text)

    @property
    def screen(self) -> str:
        return self.tmux("capture-pane", "-p", "-t", "program")

    @property
    def modes(self) -> str:
        """Whether the alternate screen, the mouse and the cursor are on, each as 0 or 1."""
        return self._told("#{alternate_on} #{mouse_any_flag} #{cursor_flag}")

    @property
    def shell(self) -> str:
        """The id of the process that the terminal was started with."""
        return self._told("#{pane_pid}")

    def _told(self, format: str) -> str:
        return self.tmux("display-message", "-p", "-t", "program", format).strip()

    def until(self, holds: Callable[[str], bool]) -> str:
        """What the screen shows, once this holds for it."""
        deadline = time.monotonic() + PATIENCE
        while not holds(screen := self.screen):
            assert time.monotonic() < deadline, screen
            time.sleep(0.1)
        return screen
