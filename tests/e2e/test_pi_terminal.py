"""The real pi on a terminal, played in tmux: its commands, dialogs, notifications and footer."""

import json
import shutil
from collections.abc import Iterator

import pytest
from tests.e2e.model_server import ModelServer
from tests.e2e.pi_agent import Pi
from tests.e2e.tmux import Tmux

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(shutil.which("tmux") is None, reason="needs tmux"),
]


class Terminal(Tmux):
    """pi in a tmux of its own."""

    def __init__(self, pi: Pi, columns: int = 150, rows: int = 50) -> None:
        super().__init__(pi.command(), pi.project, pi.environment, columns=columns, rows=rows)

    def type(self, text: str) -> None:
        """Type a line in full and send it."""
        self.write(text)
        self.until(lambda _: text in self.editor)
        self.key("Enter")
        self.until(lambda _: text not in self.editor)

    @property
    def editor(self) -> str:
        """What stands between the last two rules."""
        lines = self.screen.splitlines()
        rules = [at for at, line in enumerate(lines) if line.startswith("───")]
        return "\n".join(lines[rules[-2] : rules[-1]]) if len(rules) > 1 else ""


@pytest.fixture
def terminal(pi: Pi) -> Iterator[Terminal]:
    pi.pruning(protections={"recentTurns": 0})
    shown = Terminal(pi)
    yield shown
    shown.close()


def test_a_session_on_a_terminal(pi: Pi, model: ModelServer, terminal: Terminal):
    pi.write("a.txt", "a line of the file\n" * 200)
    model.script = [[("read", {"path": "a.txt"})], [("read", {"path": "a.txt"})], "All read.", "And on."]
    terminal.until(lambda screen: "model" in screen)
    terminal.type("Read it twice.")
    screen = terminal.until(lambda screen: "All read." in screen and "pruned " in screen)
    assert "prunewise: 1 output goes out as a short marker from now on" in screen
    assert "pruned 919 of " in screen  # the footer
    terminal.type("/context-pruning status")
    terminal.until(lambda screen: "protections: 11 tool names" in screen)
    terminal.type("/prune")
    terminal.until(lambda screen: "Prune or restore which output?" in screen)
    terminal.key("Down")
    terminal.key("Enter")
    terminal.until(lambda screen: "Restore read a.txt?" in screen)
    terminal.key("Enter")
    terminal.until(lambda screen: "Restored: it goes out in full again" in screen)
    terminal.type("Go on.")
    terminal.until(lambda screen: "And on." in screen)
    assert model.asked[2].results["call_1_0"].startswith("[prunewise")
    assert model.asked[3].results["call_1_0"].startswith("a line")
    terminal.type("/pruning settings")
    screen = terminal.until(lambda screen: "Change which setting?" in screen)
    assert "last gate decision: none" in screen
    terminal.key("Down")
    terminal.key("Down")
    terminal.key("Enter")
    terminal.until(lambda screen: "→ true" in screen)
    terminal.key("Down")
    terminal.key("Enter")
    terminal.until(lambda screen: "protectCurrentTurn is false now." in screen)
    assert json.loads((pi.agent / "settings.json").read_text())["pruning"] == {"protectCurrentTurn": False}
    terminal.write("/context-pruning gate ")
    terminal.until(lambda screen: "gate always-apply" in screen)
