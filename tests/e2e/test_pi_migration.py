"""The real pi goes on with a session that another extension has pruned."""

import json

import pytest
from tests.e2e.model_server import ModelServer
from tests.e2e.pi_agent import Pi
from tests.hosts.pi.test_migration import INPUT, PREFIX, RESULT, decision

pytestmark = pytest.mark.e2e


def test_its_markers_go_out_as_they_were_and_what_changes_is_said(pi: Pi, model: ModelServer):
    text = pi.write("a.txt", "a line of the file\n" * 200)
    model.script = [
        [("read", {"path": "a.txt"})],
        [("edit", {"path": "a.txt", "edits": [{"oldText": "nowhere", "newText": "x" * 900}]})],
        "Done.",
    ]
    pi.say("Work on it.", "--no-extensions")
    entries = pi.entries()
    added = [
        decision("manual", RESULT, "call_1_0", reason="by hand"),
        decision("error-purge", INPUT, "call_2_0", reason="errored edit call input older than 4 turns"),
    ]
    with pi.session.open("a") as file:
        for number, data in enumerate(added):
            record = {"type": "custom", "customType": "dynamic-context-pruning:decision", "data": data}
            parent = entries[-1]["id"] if number == 0 else f"0000000{number - 1}"
            place = {"id": f"0000000{number}", "parentId": parent, "timestamp": "2026-01-01T00:00:00.000Z"}
            file.write(json.dumps({**record, **place}) + "\n")
    session = str(pi.session)
    with pi.rpc("--session", session) as rpc:
        rpc.prompt("And now?")
        (said,) = [note for note in rpc.notes() if "tool recall" in note]
        assert "finds nothing in the cache, this once" in said
        rpc.prompt("And on?")
    with pi.rpc("--session", session) as rpc:
        rpc.prompt("And again?")
        assert not [note for note in rpc.notes() if "tool recall" in note]
    for asked in model.asked[3:]:
        assert asked.results["call_1_0"] == f"{PREFIX}by hand ({len(text)} chars removed)]"
        assert asked.inputs["call_2_0"] == {"pruned": True, "reason": added[1]["reason"]}
    assert model.asked[3].bill.read == 0
    assert model.asked[4].bill.read > 0
