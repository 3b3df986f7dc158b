"""The real pi before, at and after a compaction: what is left out, what always runs, what begins again."""

import json
import os
import signal
import sys
from typing import Any

import psutil
import pytest
from tests.e2e.model_server import Answer, ModelServer, Seen
from tests.e2e.pi_agent import Pi, Rpc

pytestmark = pytest.mark.e2e

OVERFLOW = Answer(status=400, error="prompt is too long: 130000 tokens > 128000 maximum")
LARGE = "".join(f"line {number} of the file, which is long\n" for number in range(1200))
READ_A = [("read", {"path": "a.txt"})]


def masking(pi: Pi, **compaction: Any) -> None:
    pi.pruning(enabled=False)
    pi.settings(compaction={"reserveTokens": 8000, "keepRecentTokens": 100, **compaction})
    pi.write("a.txt", LARGE)


def ended(rpc: Rpc) -> list[tuple[str, bool]]:
    """Each compaction that pi began: its reason, and whether it ran."""
    events = [one for one in rpc.events if one["type"] == "compaction_end"]
    return [(one["reason"], bool(one.get("result"))) for one in events]


def is_marker(seen: Seen, call: str) -> bool:
    return seen.results[call].startswith("[prunewise")


def test_by_hand_it_runs_and_masking_begins_again(pi: Pi, model: ModelServer):
    masking(pi, keepRecentTokens=14_000)
    model.script = ["Hi.", "Hello.", READ_A, "Read.", Answer("More.", tokens=121_000), "Fine."]
    with pi.rpc() as rpc:
        rpc.prompt("Hi.")
        rpc.prompt("Hello " * 5_000)
        rpc.prompt("Read it.")
        rpc.prompt("And?")
        rpc.prompt("And?")
        assert is_marker(model.asked[-1], "call_3_0")
        (before,) = rpc.command("/context-pruning status")
        assert "masking before compaction: on, engaged" in before
        rpc.ask(type="compact")
        (after,) = rpc.command("/context-pruning status")
        rpc.prompt("Go on.")
    assert ended(rpc)[-1] == ("manual", True)
    assert "masking before compaction: on\n" in after
    assert model.asked[-1].results["call_3_0"].startswith("line 0")


def test_with_compaction_off_masking_goes_on(pi: Pi, model: ModelServer):
    """The halves have a switch each: pi never asks whether to compact."""
    masking(pi, enabled=False)
    model.script = [READ_A, Answer("Read.", tokens=121_000), "Fine."]
    with pi.rpc() as rpc:
        rpc.prompt("Read it.")
        rpc.prompt("And?")
        rpc.answers["select"] = lambda _: {"cancelled": True}
        assert "last gate decision: none" in rpc.command("/pruning settings")[0]
    assert ended(rpc) == []
    assert is_marker(model.asked[-1], "call_1_0")


@pytest.mark.parametrize(("model_name", "masked"), [("model", False), ("other", True)])
def test_a_reserve_of_the_model_s_own_counts(pi: Pi, model: ModelServer, model_name: str, masked: bool):
    """As pi has it: 100,000 tokens are over the threshold by the one reserve and not by the other."""
    masking(pi, enabled=False, modelOverrides={f"anthropic-mock/{model_name}": {"reserveTokens": 1_000}})
    pi.settings(
        compaction={
            **json.loads((pi.agent / "settings.json").read_text())["compaction"],
            "reserveTokens": 40_000,
        }
    )
    model.script = [READ_A, Answer("Read.", tokens=100_000), "Fine."]
    with pi.rpc() as rpc:
        rpc.prompt("Read it.")
        rpc.prompt("And?")
    assert is_marker(model.asked[-1], "call_1_0") is masked


def test_on_overflow_it_runs(pi: Pi, model: ModelServer):
    masking(pi)
    model.script = [READ_A, "Read.", OVERFLOW, "After all."]
    with pi.rpc() as rpc:
        rpc.prompt("Read it.")
        rpc.prompt("And?")
    assert ended(rpc) == [("overflow", True)]
    assert len([one for one in model.requests if not one.main]) <= 2
    assert len(model.asked) == 4


def test_a_dead_engine_behind_a_compaction_left_out(pi: Pi, model: ModelServer):
    """The request goes out raw, is too long, and pi's own recovery compacts: once, and nothing loops."""
    masking(pi)
    switch = pi.project.parent / "python"
    switch.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    switch.chmod(0o755)
    stub = pi.agent / "extensions" / "prunewise" / "index.ts"
    stub.write_text(stub.read_text().replace(json.dumps(sys.executable), json.dumps(str(switch))))
    model.script = [
        READ_A,
        "Read.",
        Answer("More.", tokens=121_000),
        lambda seen: "Small." if is_marker(seen, "call_1_0") else OVERFLOW,
        "After all.",
    ]
    with pi.rpc(PATH="/usr/bin:/bin") as rpc:
        rpc.prompt("Read it.")
        rpc.prompt("And?")
        assert ended(rpc) == [("threshold", False)]
        children = psutil.Process(rpc.process.pid).children(recursive=True)
        (engine,) = [one for one in children if "prunewise.hosts.pi" in one.cmdline()]
        switch.write_text("#!/bin/sh\nexit 1\n")
        os.kill(engine.pid, signal.SIGKILL)
        rpc.prompt("And?")
        assert sum("unpruned" in note for note in rpc.notes()) == 1
        assert ended(rpc)[1:] in ([("threshold", True)], [("overflow", True)])
        assert len(model.requests) <= 8
        model.script = ["Still here."]
        rpc.prompt("And now?")
        assert rpc.close() < 10
