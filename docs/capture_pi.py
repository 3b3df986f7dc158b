"""Writes the terminal captures of the page on pi: `python docs/capture_pi.py`.

Plays a session in the real pi, in tmux, against the tests' scripted model, and puts what the terminal
showed between the marks in how-to/pi.md. Needs tmux, and pi as `make test` installs it.
"""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from tests.e2e.model_server import ModelServer
from tests.e2e.pi_agent import Pi
from tests.e2e.test_pi_terminal import Terminal

PAGE = Path(__file__).resolve().parent / "how-to" / "pi.md"
BLOCK = re.compile(r"(<!-- capture: (\w+) -->\n)```text\n.*?```\n", re.DOTALL)
SHOWN = 26


def capture() -> dict[str, str]:
    """What the terminal shows, by the name of each capture."""
    with tempfile.TemporaryDirectory() as folder, ModelServer() as model:
        pi = Pi(Path(folder), model.port)
        pi.install()
        pi.pruning(protections={"recentTurns": 0})
        pi.write("report.txt", "The numbers of the last quarter, row by row.\n" * 120)
        reading = [("read", {"path": "report.txt"})]
        model.script = [reading, [*reading, ("bash", {"command": "wc -l report.txt"})], "It has 120 rows."]
        terminal = Terminal(pi, columns=110, rows=44)
        try:
            terminal.until(lambda screen: "model" in screen)
            terminal.type("How many rows has report.txt?")
            terminal.until(lambda screen: "120 rows." in screen and "pruned " in screen)
            terminal.type("/context-pruning status")
            session = terminal.until(lambda screen: "cache breaks" in screen)
            terminal.type("/prune")
            picker = terminal.until(lambda screen: "Prune or restore which output?" in screen)
        finally:
            terminal.close()
    return {"session": _trimmed(session), "picker": _trimmed(picker)}


def _trimmed(screen: str) -> str:
    """The last lines with something on them, without runs of blank ones."""
    text = re.sub(r"\n\s*\n(\s*\n)+", "\n\n", "\n".join(line.rstrip() for line in screen.splitlines()))
    lines = text.strip("\n").splitlines()[-SHOWN:]
    return "\n".join(lines).strip("\n")


def main() -> None:
    """Bring the page up to date."""
    shown = capture()
    text = PAGE.read_text(encoding="utf-8")
    page = BLOCK.sub(lambda found: f"{found[1]}```text\n{shown[found[2]]}\n```\n", text)
    PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
