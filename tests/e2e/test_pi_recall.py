"""The real pi: every form of a recall reference, from wherever the model asks."""

import json

import pytest
from tests.e2e.model_server import ModelServer, Seen
from tests.e2e.pi_agent import Pi
from tests.e2e.test_pi_branches import GOTO

pytestmark = pytest.mark.e2e

LONG = "".join(f"line {number} of a long file\n" for number in range(1, 1000))
HINT = "[prunewise:"
READ_A = [("read", {"path": "a.txt"})]


def recalls(*references: str) -> list[tuple[str, dict[str, str]]]:
    return [("recall", {"ref": reference}) for reference in references]


def check(seen: Seen, call: str, *, full: bool) -> None:
    """That a recall gave what was read: all of it, or its beginning and how to get the rest."""
    text = seen.results[call]
    if full:
        assert text.rstrip() == LONG.rstrip()
    else:
        assert text.startswith(LONG[:11_000])
        assert LONG.rstrip() not in text
        assert ":full" in text


def reading_twice(pi: Pi, model: ModelServer) -> None:
    pi.pruning(protections={"recentTurns": 0}, gate={"mode": "off"})
    pi.write("a.txt", LONG)
    model.script = [READ_A, READ_A, "Done."]


def test_all_forms_on_this_branch_and_on_another(pi: Pi, model: ModelServer):
    (pi.agent / "extensions" / "goto.ts").write_text(GOTO)
    reading_twice(pi, model)
    with pi.rpc() as rpc:
        rpc.prompt("Read it twice.")
        line = model.asked[2].reference("call_1_0")
        entries = pi.entries()
        name = next(one["id"] for one in entries if one.get("message", {}).get("toolCallId") == "call_1_0")
        assert entries[int(line[1:]) - 1]["id"] == name
        forms = (line, f"{line}:full", name, f"{name}:full")
        model.script = [recalls(*forms, "#1", "nonsense"), "Done."]
        rpc.prompt("Recall it.")
        here = model.asked[-1]
        rpc.command(f"/goto {next(one['id'] for one in entries if one['type'] == 'message')}")
        model.script = [recalls(*forms), "Done."]
        rpc.prompt("Recall it here.")
        elsewhere = model.asked[-1]
    for seen, number in ((here, 4), (elsewhere, 6)):
        for at, form in enumerate(forms):
            check(seen, f"call_{number}_{at}", full=form.endswith(":full"))
    assert "call_1_0" not in elsewhere.results
    assert "is the session header, not an output" in here.results["call_4_4"]
    assert "nonsense: no entry with this id" in here.results["call_4_5"]


def test_all_forms_without_a_session(pi: Pi, model: ModelServer):
    reading_twice(pi, model)
    model.script[2:] = [
        lambda seen: recalls(seen.reference("call_1_0"), f"{seen.reference('call_1_0')}:full"),
        "Done.",
    ]
    pi.say("Read it twice.", "--no-session")
    check(model.asked[3], "call_3_0", full=False)
    check(model.asked[3], "call_3_1", full=True)


@pytest.mark.parametrize("tools", [["--tools", "read,bash"], ["--exclude-tools", "recall"]])
def test_where_the_model_is_not_offered_recall_nothing_is_pruned(
    pi: Pi, model: ModelServer, tools: list[str]
):
    """A marker would promise what the model cannot have; with the tool there again, it goes out."""
    reading_twice(pi, model)
    done = pi.run("-p", "Read it twice.", *tools)
    assert "recall" not in model.asked[2].tools
    assert model.asked[2].results["call_1_0"].startswith(LONG[:1000])
    assert done.stderr.count("the tool recall is switched off") == 1
    assert pi.custom("decision") == []
    model.script = ["Fine.", "Fine."]
    pi.say("Go on.", "--continue")
    assert model.asked[-1].results["call_1_0"].startswith(HINT)
    pi.say("Go on.", "--continue", *tools)
    assert model.asked[-1].results["call_1_0"].startswith(LONG[:1000])


def test_a_session_with_longer_ids(pi: Pi, model: ModelServer):
    """As other versions of pi and other programs write them."""
    reading_twice(pi, model)
    pi.say("Read it twice.", "--no-extensions")
    text = pi.session.read_text()
    for one in pi.entries()[1:]:
        text = text.replace(json.dumps(one["id"]), json.dumps(f"{one['id']}abcd"))
    pi.session.write_text(text)
    name = next(one["id"] for one in pi.entries() if one.get("message", {}).get("toolCallId") == "call_1_0")
    assert len(name) == 12
    model.script = [recalls(name, f"{name}:full"), "Done."]
    pi.say("Recall it.", "--continue")
    check(model.asked[-1], "call_4_0", full=False)
    check(model.asked[-1], "call_4_1", full=True)
    assert model.asked[-1].results["call_1_0"].startswith(HINT)
