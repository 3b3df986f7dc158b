"""The real pi whose requests go out whole at times: the footer is what the provider's bill says."""

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.model_server import ModelServer, Seen
from tests.e2e.pi_agent import Pi, Rpc, engine_of
from tests.e2e.test_pi_failures import FULL_DISK

pytestmark = pytest.mark.e2e

READ = [("read", {"path": "a.txt"})]
SENT, LATE, UNWRITTEN, DEAD = "sent", "late", "unwritten", "dead"


class Played:
    """A pi whose next request goes out as its fate says."""

    def __init__(self, folder: Path, model: ModelServer, *, enabled: bool) -> None:
        self.pi = Pi(folder, model.port)
        self.pi.install()
        self.pi.pruning(enabled=enabled, protections={"recentTurns": 0}, gate={"mode": "always-apply"})
        (self.pi.agent / "extensions" / "full.ts").write_text(FULL_DISK)
        self.full = folder / "full"
        self.stopped = 0

    def meet(self, rpc: Rpc, fate: str) -> None:
        """Have the next request meet its fate."""
        self.full.unlink(missing_ok=True)
        if self.stopped and fate != LATE:
            os.kill(self.stopped, signal.SIGCONT)
            self.stopped = 0
            time.sleep(1.5)  # it answers what is waiting
        if fate == UNWRITTEN:
            self.full.touch()
        elif fate == DEAD:
            os.kill(engine_of(rpc), signal.SIGKILL)
        elif fate == LATE and not self.stopped:
            self.stopped = engine_of(rpc)
            os.kill(self.stopped, signal.SIGSTOP)

    def play(self, model: ModelServer, fates: list[str]) -> str | None:
        """A file that is read with each request, and changes: the footer at the end."""
        more = {"FULL": str(self.full), "PRUNEWISE_DEADLINE_MS": "2500"}
        with self.pi.rpc(**more) as rpc:
            rpc.command("/context-pruning status")  # the engine runs

            def step(number: int) -> Any:
                def met(_: Seen) -> Any:
                    self.pi.write("a.txt", f"line {number // 2} of the file\n" * 500)
                    self.meet(rpc, fates[number])
                    return READ

                return met

            model.script = [step(number) for number in range(1, len(fates))]
            self.meet(rpc, fates[0])
            rpc.prompt("Read it again and again.")
            self.meet(rpc, SENT)
            rpc.prompt("And now?")
            rpc.prompt("And on.")
            return rpc.status()


@pytest.mark.parametrize(
    "fates",
    [
        [SENT] * 5,
        [LATE] * 4,
        [UNWRITTEN] * 4,
        [SENT, SENT, SENT, LATE, SENT],
        [SENT, SENT, SENT, LATE, LATE, SENT],
        [SENT, SENT, SENT, UNWRITTEN, SENT],
        [SENT, SENT, SENT, DEAD, SENT],
    ],
    ids=" ".join,
)
def test_the_footer_is_the_providers_bill(tmp_path: Path, fates: list[str]):
    with ModelServer() as pruned, ModelServer() as whole:
        footer = Played(tmp_path / "pruned", pruned, enabled=True).play(pruned, fates)
        Played(tmp_path / "whole", whole, enabled=False).play(whole, [SENT] * len(fates))
        assert len(pruned.asked) == len(whole.asked)
        # the last one is not answered yet when the footer is made
        cost, without = (sum(one.bill.cost() for one in model.asked[:-1]) for model in (pruned, whole))
    assert footer is not None
    net = footer.split("net ")[1].split("%")[0] if "net" in footer else 0
    assert float(net) == pytest.approx(100 * (1 - cost / without), abs=2), footer
