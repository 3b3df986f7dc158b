"""The real pi with the extension, against a scripted model: what the model gets, what the session holds."""

import json
import os
import signal
import sys
import time

import psutil
import pytest
from tests.e2e.model_server import Answer, ModelServer
from tests.e2e.pi_agent import Pi, engine_of

pytestmark = pytest.mark.e2e


def test_duplicates_go_out_as_markers_and_recall_gives_them_back(pi: Pi, model: ModelServer):
    pi.pruning(protections={"recentTurns": 0})
    text = pi.write("a.txt", "".join(f"line {n} of the file\n" for n in range(200)))
    model.script = [
        [("read", {"path": "a.txt"})],
        [("read", {"path": "a.txt"})],
        lambda seen: [("recall", {"ref": seen.results["call_1_0"].split("recall ")[1].split(" ")[0]})],
        "Done.",
    ]
    pi.say("Read it twice.")
    first, second, third, fourth = model.asked
    assert first.results == {}
    assert second.results["call_1_0"].startswith("line 0")
    assert third.results["call_1_0"].startswith("[prunewise: read output")
    assert third.results["call_2_0"].startswith("line 0")
    assert fourth.results["call_3_0"] == text.rstrip("\n") or fourth.results["call_3_0"] == text
    assert fourth.results["call_1_0"] == third.results["call_1_0"]
    assert model.breaks == 1
    assert "recall" in first.tools
    assert all(one.tools == first.tools for one in model.asked)
    (decision,) = pi.custom("decision")
    assert decision["strategyId"] == "dedupe"
    assert decision["placeholder"] == third.results["call_1_0"]


def test_chat_completions_get_the_same(pi: Pi, model: ModelServer):
    pi.pruning(protections={"recentTurns": 0})
    pi.settings(defaultProvider="chat-mock")
    pi.write("a.txt", "a line of the file\n" * 200)
    model.script = [[("read", {"path": "a.txt"})], [("read", {"path": "a.txt"})], "Done."]
    pi.say("Read it twice.")
    assert model.asked[2].api == "chat"
    assert model.asked[2].results["call_1_0"].startswith("[prunewise: read output")


def test_a_session_goes_on_in_a_new_process(pi: Pi, model: ModelServer):
    pi.pruning(protections={"recentTurns": 0})
    pi.write("a.txt", "a line of the file\n" * 200)
    model.script = [[("read", {"path": "a.txt"})], [("read", {"path": "a.txt"})], "Done."]
    pi.say("Read it twice.")
    before = pi.session.read_bytes()
    marker = model.asked[2].results["call_1_0"]
    reference = marker.split("recall ")[1].split(" ")[0]
    model.script = ["Hello again.", [("recall", {"ref": f"{reference}:full"})], "Done."]
    pi.say("Hello?", "--continue")
    pi.say("Recall it.", "--continue")
    assert [one.results["call_1_0"] for one in model.asked[3:]] == [marker] * 3
    assert model.asked[5].results["call_5_0"].startswith("a line of the file\na line")
    assert model.breaks == 1
    assert pi.session.read_bytes().startswith(before)


def test_a_session_in_memory_has_entry_ids_as_references(pi: Pi, model: ModelServer):
    pi.pruning(protections={"recentTurns": 0})
    text = "a line of the file\n" * 200
    pi.write("a.txt", text)
    model.script = [
        [("read", {"path": "a.txt"})],
        [("read", {"path": "a.txt"})],
        lambda seen: [("recall", {"ref": seen.results["call_1_0"].split("recall ")[1].split(" ")[0]})],
        "Done.",
    ]
    pi.say("Read it twice.", "--no-session")
    assert not list((pi.agent / "sessions").rglob("*.jsonl"))
    reference = model.asked[2].results["call_1_0"].split("recall ")[1].split(" ")[0]
    assert len(reference) == 8
    assert model.asked[3].results["call_3_0"].strip() == text.strip()


def test_large_outputs_are_masked_and_the_compaction_is_left_out(pi: Pi, model: ModelServer):
    pi.settings(compaction={"reserveTokens": 8000, "keepRecentTokens": 2000})
    pi.write("a.txt", "".join(f"line {n} of the file, which is long\n" for n in range(1200)))
    model.script = [
        [("read", {"path": "a.txt"})],
        "Read.",
        Answer("More.", tokens=121_000),
        Answer("Fine.", tokens=100_000),
    ]
    with pi.rpc() as rpc:
        rpc.prompt("Read it.")
        rpc.prompt("And?")
        rpc.prompt("And?")
        ended = [one for one in rpc.events if one["type"] == "compaction_end"]
        notes = rpc.notes()
        status = rpc.status()
    assert ended
    assert all(one["aborted"] for one in ended)
    assert not [one for one in model.requests if not one.main]
    masked = model.asked[3].results["call_1_0"]
    assert masked.startswith(f"[prunewise: read output left out: {pi.project}/a.txt, lines 1-")
    assert sum("prunewise" in note for note in notes) == 1
    assert status is not None
    assert status.startswith("pruned ")


def test_a_compaction_runs_where_pruning_does_not_make_room(pi: Pi, model: ModelServer):
    pi.settings(compaction={"reserveTokens": 8000, "keepRecentTokens": 100})
    model.script = [
        [("bash", {"command": "seq 1 6000"})],
        Answer("word " * 2000, tokens=125_000),
        Answer("Fine.", tokens=125_000),
    ]
    with pi.rpc() as rpc:
        rpc.prompt("Count.")
        rpc.prompt("And?")
        ended = [one for one in rpc.events if one["type"] == "compaction_end"]
    assert any(not one["aborted"] and one["result"] for one in ended)


# ---- failures


def test_without_an_engine_the_request_goes_out_as_it_is(pi: Pi, model: ModelServer):
    pi.pruning(protections={"recentTurns": 0})
    pi.write("a.txt", "a line of the file\n" * 200)
    model.script = [[("read", {"path": "a.txt"})], [("read", {"path": "a.txt"})], "Done."]
    done = pi.run("-p", "Read it twice.", PRUNEWISE_PYTHON="/bin/false")
    assert done.returncode == 0
    assert done.stdout.strip() == "Done."
    assert model.asked[2].results["call_1_0"].startswith("[prunewise")  # the next in line served


def test_a_moved_interpreter_is_told_once(pi: Pi, model: ModelServer):
    stub = pi.agent / "extensions" / "prunewise" / "index.ts"
    stub.write_text(stub.read_text().replace(json.dumps(sys.executable), '"/nowhere/python"'))
    pi.write("a.txt", "a line of the file\n" * 200)
    model.script = [[("read", {"path": "a.txt"})], [("read", {"path": "a.txt"})], "Done."]
    done = pi.run("-p", "Read it twice.", PATH="/usr/bin:/bin")
    assert (done.returncode, done.stdout.strip()) == (0, "Done.")
    assert done.stderr.count("prunewise:") == 1
    assert "/nowhere/python" in done.stderr
    assert model.asked[2].results["call_1_0"].startswith("a line")


def test_an_engine_that_is_killed_comes_back(pi: Pi, model: ModelServer):
    pi.pruning(protections={"recentTurns": 0})
    pi.write("a.txt", "a line of the file\n" * 200)
    model.script = [
        [("read", {"path": "a.txt"})],
        [("read", {"path": "a.txt"})],
        "One.",
        "Two.",
        "Three.",
    ]
    with pi.rpc() as rpc:
        rpc.prompt("Read it twice.")
        first = engine_of(rpc)
        os.kill(first, signal.SIGKILL)
        rpc.prompt("Go on.")
        assert engine_of(rpc) != first
        rpc.prompt("Go on.")
        assert not [note for note in rpc.notes() if "unpruned" in note]
        assert rpc.close() < 5
    assert model.asked[4].results["call_1_0"] == model.asked[2].results["call_1_0"]
    assert not psutil.pid_exists(first)


def test_an_engine_that_hangs_costs_one_deadline(pi: Pi, model: ModelServer):
    pi.pruning(protections={"recentTurns": 0})
    pi.write("a.txt", "a line of the file\n" * 200)
    model.script = [[("read", {"path": "a.txt"})], [("read", {"path": "a.txt"})], "One.", "Two."]
    with pi.rpc(PRUNEWISE_DEADLINE_MS="1500") as rpc:
        rpc.prompt("Read it twice.")
        engine = engine_of(rpc)
        os.kill(engine, signal.SIGSTOP)
        started = time.monotonic()
        rpc.prompt("Go on.")
        assert 1.4 < time.monotonic() - started < 15
        assert model.asked[3].results["call_1_0"].startswith("a line")
        assert sum("unpruned" in note for note in rpc.notes()) == 1
        rpc.close()
    assert not psutil.pid_exists(engine)


# ---- commands


def test_commands_over_rpc(pi: Pi, model: ModelServer):
    pi.pruning(protections={"recentTurns": 0}, strategies={"dedupe": {"enabled": False}})
    pi.write("a.txt", "a line of the file\n" * 200)
    model.script = [[("read", {"path": "a.txt"})], "One.", "Two.", "Three."]
    with pi.rpc() as rpc:
        rpc.prompt("Read it.")
        (status,) = rpc.command("/context-pruning status")
        for name in ("enabled: on", "gate: on", "strategies: dedupe off", "protections: 11 tool names"):
            assert name in status
        (done,) = rpc.command("/context-pruning gate off")
        assert done == "The gate is off."
        (told,) = rpc.command("/pruning settings minResultTokens=500")
        assert "minResultTokens     500" in told
        rpc.answers["select"] = lambda asked: {"value": asked["options"][0]}
        rpc.answers["confirm"] = lambda _: {"confirmed": True}
        (done,) = rpc.command("/prune")
        assert done.startswith("Pruned")
        rpc.prompt("Go on.")
        (done,) = rpc.command("/prune")
        assert done.startswith("Restored")
        rpc.prompt("Go on.")
    assert model.asked[2].results["call_1_0"].startswith("[prunewise: read output")
    assert model.asked[3].results["call_1_0"].startswith("a line")
    assert json.loads((pi.agent / "settings.json").read_text())["pruning"] == {"minResultTokens": 500}
    saved = json.loads((pi.agent / "extensions" / "dynamic-context-pruning.json").read_text())
    assert saved["gate"] == {"mode": "off"}
    (decision,) = pi.custom("decision")
    assert (decision["strategyId"], decision["source"]) == ("manual", "manual")
    assert [one["idempotencyKey"] for one in pi.custom("restore")] == [decision["idempotencyKey"]]


def test_prune_in_print_mode_is_a_report(pi: Pi, model: ModelServer):
    pi.write("a.txt", "a line of the file\n" * 200)
    model.script = [[("read", {"path": "a.txt"})], "One."]
    pi.say("Read it.")
    assert pi.say("/prune", "--continue").startswith("[active] read a.txt (")
