"""The real pi whose engine is killed or stopped in mid-call, and whose session is changed from outside."""

import os
import shutil
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from tests.e2e.model_server import Answer, ModelServer, Seen
from tests.e2e.pi_agent import Pi, engine_of

pytestmark = pytest.mark.e2e

READ_A = [("read", {"path": "a.txt"})]
TEXT = "a line of the file\n" * 200
LARGE = "".join(f"line {number} of the file, which is long\n" for number in range(1200))


def reading_twice(pi: Pi, model: ModelServer) -> None:
    pi.pruning(protections={"recentTurns": 0}, gate={"mode": "off"})
    pi.write("a.txt", TEXT)
    model.script = [READ_A, READ_A, "Done."]


def is_marker(seen: Seen, call: str) -> bool:
    return seen.results[call].startswith("[prunewise")


def kill_in_mid_call(engine: int, seconds: float = 1.0) -> None:
    """Stop the engine now, so that the next call finds it silent, and kill it while that one waits."""
    os.kill(engine, signal.SIGSTOP)
    threading.Timer(seconds, os.kill, (engine, signal.SIGKILL)).start()


def test_killed_in_mid_call_another_one_answers_the_same_request(pi: Pi, model: ModelServer):
    reading_twice(pi, model)
    with pi.rpc() as rpc:
        rpc.prompt("Read it twice.")
        first = engine_of(rpc)
        kill_in_mid_call(first)
        rpc.prompt("Go on.")
        assert engine_of(rpc) != first
        assert not [note for note in rpc.notes() if "unpruned" in note]
    assert model.asked[3].results == model.asked[2].results
    assert model.breaks == 1


@pytest.mark.parametrize("session", [[], ["--no-session"]])
def test_killed_while_it_recalls_another_one_recalls(pi: Pi, model: ModelServer, session: list[str]):
    reading_twice(pi, model)
    with pi.rpc(*session) as rpc:
        rpc.prompt("Read it twice.")

        def recall(seen: Seen) -> Any:
            kill_in_mid_call(engine_of(rpc))
            return [("recall", {"ref": f"{seen.reference('call_1_0')}:full"})]

        model.script = [recall, "Done."]
        rpc.prompt("Recall it.")
    assert model.asked[-1].results["call_4_0"].strip() == TEXT.strip()


@pytest.mark.parametrize("session", [[], ["--no-session"]])
def test_killed_while_a_dialog_is_open_the_command_says_so_and_can_be_given_again(
    pi: Pi, model: ModelServer, session: list[str]
):
    reading_twice(pi, model)
    with pi.rpc(*session) as rpc:
        rpc.prompt("Read it twice.")

        def pick(asked: dict[str, Any]) -> dict[str, Any]:
            os.kill(engine_of(rpc), signal.SIGKILL)
            time.sleep(0.5)
            return {"value": asked["options"][0]}

        rpc.answers["select"] = pick
        rpc.answers["confirm"] = lambda _: {"confirmed": True}
        over = "prunewise: /prune has not been carried out: this dialog is over: give the command again"
        assert rpc.command("/prune") == [over]
        rpc.answers["select"] = lambda asked: {"value": asked["options"][-1]}
        assert rpc.command("/prune")[0].startswith("Restored")
        model.script = ["Fine."]
        rpc.prompt("Go on.")
        assert not is_marker(model.asked[-1], "call_1_0")


def test_stopped_a_command_says_why_it_does_nothing(pi: Pi, model: ModelServer):
    reading_twice(pi, model)
    with pi.rpc(PRUNEWISE_DEADLINE_MS="1500") as rpc:
        rpc.prompt("Read it twice.")
        os.kill(engine_of(rpc), signal.SIGSTOP)
        started = time.monotonic()
        for _ in range(2):
            (said,) = rpc.command("/context-pruning status")
            assert "has not answered in time" in said
        assert time.monotonic() - started < 10


def test_a_compaction_counts_that_the_engine_did_not_hear_of(pi: Pi, model: ModelServer):
    """Stopped while pi compacts, and there again: masking begins from raw."""
    pi.pruning(enabled=False)
    pi.settings(compaction={"reserveTokens": 8000, "keepRecentTokens": 14_000})
    pi.write("a.txt", LARGE)
    model.script = ["Hi.", "Hello.", READ_A, "Read.", Answer("More.", tokens=121_000), "Fine."]
    with pi.rpc(PRUNEWISE_DEADLINE_MS="3000") as rpc:
        rpc.prompt("Hi.")
        rpc.prompt("Hello " * 5_000)
        rpc.prompt("Read it.")
        rpc.prompt("And?")
        rpc.prompt("And?")
        assert is_marker(model.asked[-1], "call_3_0")
        engine = engine_of(rpc)
        os.kill(engine, signal.SIGSTOP)
        rpc.command("/context-pruning status")  # late: it is not asked again until it is there
        rpc.ask(type="compact")
        os.kill(engine, signal.SIGCONT)
        time.sleep(1)
        assert engine_of(rpc) == engine
        (status,) = rpc.command("/context-pruning status")
        assert "masking before compaction: on\n" in status
        rpc.prompt("Go on.")
    assert model.asked[-1].results["call_3_0"].startswith("line 0")


def saved_anew(pi: Pi) -> None:
    copy = pi.session.with_suffix(".copy")
    shutil.copy(pi.session, copy)
    copy.replace(pi.session)


def cut_short(pi: Pi) -> None:
    lines = pi.session.read_bytes().splitlines(keepends=True)
    pi.session.write_bytes(b"".join(lines[:-2]))


def emptied(pi: Pi) -> None:
    pi.session.write_bytes(b"")


def gone(pi: Pi) -> None:
    pi.session.unlink()


def half_a_line(pi: Pi) -> None:
    with pi.session.open("ab") as file:
        file.write(b'{"type":"custom","id":"0a0b')


@pytest.mark.parametrize("change", [saved_anew, cut_short, emptied, gone, half_a_line])
def test_a_session_file_changed_from_outside_stops_nothing(
    pi: Pi, model: ModelServer, change: Callable[[Pi], None]
):
    """What goes out is in full, or a marker that recall resolves."""
    reading_twice(pi, model)
    with pi.rpc() as rpc:
        rpc.prompt("Read it twice.")
        change(pi)
        model.script = [
            lambda seen: (
                [("recall", {"ref": f"{seen.reference('call_1_0')}:full"})]
                if is_marker(seen, "call_1_0")
                else "In full."
            ),
            "Done.",
            "And on.",
        ]
        rpc.prompt("Go on.")
        rpc.prompt("Go on.")
        assert sum("prunewise: " in note for note in rpc.notes()) <= 2  # the first pruning, and this
        assert rpc.close() < 10
    last = model.asked[-1].results
    assert last["call_1_0"].strip() == TEXT.strip() or last["call_4_0"].strip() == TEXT.strip()
    if change in (saved_anew, half_a_line):
        assert is_marker(model.asked[-1], "call_1_0")


def test_killed_in_the_middle_of_the_compaction_check_another_one_answers(pi: Pi, model: ModelServer):
    pi.pruning(enabled=False)
    pi.settings(compaction={"reserveTokens": 8000, "keepRecentTokens": 100})
    pi.write("a.txt", LARGE)
    with pi.rpc() as rpc:

        def large(_: Seen) -> Answer:
            kill_in_mid_call(engine_of(rpc))  # pi checks once the answer is there
            return Answer("More.", tokens=121_000)

        model.script = [READ_A, "Read.", large, "Fine."]
        rpc.prompt("Read it.")
        rpc.prompt("And?")
        rpc.prompt("And?")
        compactions = [one for one in rpc.events if one["type"] == "compaction_end"]
        assert not [note for note in rpc.notes() if "unpruned" in note]
    assert compactions
    assert not [one for one in compactions if one.get("result")]
    assert is_marker(model.asked[-1], "call_1_0")
