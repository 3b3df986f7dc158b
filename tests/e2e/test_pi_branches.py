"""The real pi on its way through a session's tree: forks, other branches, compactions, other extensions."""

import json
import time

import pytest
from tests.e2e.model_server import ModelServer
from tests.e2e.pi_agent import Pi, Rpc

pytestmark = pytest.mark.e2e

GOTO = """
export default function (pi) {
	pi.registerCommand("goto", { handler: async (args, ctx) => { await ctx.navigateTree(args.trim()); } });
}
"""
RELOAD = """
export default function (pi) {
	pi.registerCommand("again", { handler: async (_args, ctx) => { await ctx.reload(); } });
}
"""
REWRITER = """
export default function (pi) {
	pi.on("context", (event) => {
		const messages = event.messages.filter((message) => message.role !== "custom");
		return { messages: [{ role: "user", content: "First of all.", timestamp: 1 }, ...messages] };
	});
}
"""

SHOUTER = """
export default function (pi) {
	pi.on("context", ({ messages }) => {
		if (messages.length < 5) return undefined;
		const shouted = structuredClone(messages);
		const first = shouted.find((message) => message.role === "toolResult");
		for (const block of first.content) block.text = block.text.toUpperCase();
		return { messages: shouted };
	});
}
"""
REORDERER = """
export default function (pi) {
	pi.on("context", ({ messages }) => {
		const results = messages.filter((one) => one.role === "toolResult");
		if (results.length < 2) return undefined;
		const [a, b] = [messages.indexOf(results[0]), messages.indexOf(results[1])];
		const swapped = messages.slice();
		[swapped[a], swapped[b]] = [swapped[b], swapped[a]];
		return { messages: swapped };
	});
}
"""
REPEATER = """
export default function (pi) {
	pi.on("context", ({ messages }) => {
		const first = messages.find((one) => one.role === "user");
		return { messages: [...messages, structuredClone(first)] };
	});
}
"""
REMOVER = """
export default function (pi) {
	pi.on("context", ({ messages }) => ({ messages: messages.slice(messages.length > 4 ? 1 : 0) }));
}
"""


def reading_twice(pi: Pi, model: ModelServer) -> None:
    pi.pruning(protections={"recentTurns": 0}, gate={"mode": "off"})
    pi.write("a.txt", "a line of the file\n" * 200)
    model.script = [[("read", {"path": "a.txt"})], [("read", {"path": "a.txt"})], "Done."]


def user_entries(rpc: Rpc) -> list[str]:
    entries = rpc.ask(type="get_entries")["data"]["entries"]
    return [one["id"] for one in entries if one.get("message", {}).get("role") == "user"]


def test_a_fork_goes_on_with_its_parents_markers(pi: Pi, model: ModelServer):
    reading_twice(pi, model)
    with pi.rpc() as rpc:
        rpc.prompt("Read it twice.")
        parent = pi.session
        marker = model.asked[2].results["call_1_0"]
        reference = model.asked[2].reference("call_1_0")
        rpc.ask(type="clone")
        model.script = [
            [("recall", {"ref": f"{reference}:full"})],
            [("read", {"path": "a.txt"})],
            lambda seen: [("recall", {"ref": f"{seen.reference('call_2_0')}:full"})],
            "Done.",
        ]
        rpc.prompt("Recall it.")
        fork = pi.session
    assert fork != parent
    assert [one.results["call_1_0"] for one in model.asked[3:]] == [marker] * 4
    assert model.asked[4].results["call_4_0"].startswith("a line")
    assert not model.asked[5].reference("call_2_0").startswith("#")
    assert model.asked[6].results["call_6_0"].startswith("a line")


def test_a_fork_from_further_back_has_the_decisions_of_there(pi: Pi, model: ModelServer):
    reading_twice(pi, model)
    with pi.rpc() as rpc:
        rpc.prompt("Read it twice.")
        model.script = [[("read", {"path": "a.txt"})], "Thrice."]
        rpc.prompt("Once more.")
        second = model.asked[-1].results
        rpc.ask(type="fork", entryId=user_entries(rpc)[-1])
        model.script = ["Another way."]
        rpc.prompt("What now?")
    assert second["call_2_0"].startswith("[prunewise")
    assert model.asked[-1].results == model.asked[2].results
    assert len(pi.custom("decision")) == 1


def test_a_reload_changes_nothing(pi: Pi, model: ModelServer):
    (pi.agent / "extensions" / "again.ts").write_text(RELOAD)
    reading_twice(pi, model)
    with pi.rpc() as rpc:
        rpc.prompt("Read it twice.")
        rpc.command("/again")
        model.script = [[("read", {"path": "a.txt"})], "Thrice."]
        rpc.prompt("Once more.")
        assert not [note for note in rpc.notes() if "unpruned" in note or "twice" in note]
    assert model.asked[3].results["call_1_0"] == model.asked[2].results["call_1_0"]
    assert model.asked[4].results["call_2_0"].startswith("[prunewise")
    assert model.breaks == 2


def test_another_session_in_the_same_process_and_back(pi: Pi, model: ModelServer):
    reading_twice(pi, model)
    with pi.rpc() as rpc:
        rpc.prompt("Read it twice.")
        first = pi.session
        rpc.ask(type="new_session")
        model.script = [[("read", {"path": "a.txt"})], [("read", {"path": "a.txt"})], "Done."]
        rpc.prompt("Here too.")
        second = pi.session
        here = model.asked[-1].results
        rpc.ask(type="switch_session", sessionPath=str(first))
        model.script = ["Back again."]
        rpc.prompt("And there?")
        assert not [note for note in rpc.notes() if "unpruned" in note]
    assert second != first
    assert [text.startswith("[prunewise") for text in here.values()] == [True, False]
    assert model.asked[-1].results == model.asked[2].results
    for path in (first, second):
        kinds = [one["customType"].split(":")[1] for one in pi.entries(path) if one["type"] == "custom"]
        assert kinds == ["decision", "stats"]


def test_another_branch_has_its_own_decisions(pi: Pi, model: ModelServer):
    (pi.agent / "extensions" / "goto.ts").write_text(GOTO)
    reading_twice(pi, model)
    with pi.rpc() as rpc:
        rpc.prompt("Read it.")
        first_read = next(
            one["id"] for one in pi.entries() if one.get("message", {}).get("toolCallId") == "call_1_0"
        )
        end = pi.entries()[-1]["id"]
        rpc.command(f"/goto {first_read}")
        model.script = ["Another branch."]
        rpc.prompt("What now?")
        rpc.command(f"/goto {end}")
        model.script = ["Back again."]
        rpc.prompt("And here?")
    assert model.asked[3].results == {"call_1_0": model.asked[1].results["call_1_0"]}
    assert model.asked[4].results["call_1_0"] == model.asked[2].results["call_1_0"]
    assert len(pi.custom("decision")) == 1


def test_after_a_compaction_the_rest_goes_on(pi: Pi, model: ModelServer):
    pi.settings(compaction={"keepRecentTokens": 10})
    reading_twice(pi, model)
    with pi.rpc() as rpc:
        rpc.prompt("Read it.")
        rpc.ask(type="compact")
        model.script = [[("read", {"path": "a.txt"})], [("read", {"path": "a.txt"})], "Done."]
        rpc.prompt("Again, twice.")
        assert not [note for note in rpc.notes() if "unpruned" in note]
    summary = next(one for one in model.requests if not one.main)
    assert "prunewise" not in str(summary.body)
    newest, before = model.asked[-1].results.values().__reversed__(), model.asked[-1].results
    assert next(newest).startswith("a line")
    assert sum(text.startswith("[prunewise") for text in before.values()) == len(before) - 1


def test_another_extension_may_rewrite_what_goes_out(pi: Pi, model: ModelServer):
    (pi.agent / "extensions" / "another.ts").write_text(REWRITER)
    reading_twice(pi, model)
    pi.say("Read it twice.")
    assert "First of all." in str(model.asked[2].messages[0])
    assert model.asked[2].reference("call_1_0").startswith("#")


@pytest.mark.parametrize("code", [REORDERER, REPEATER, REMOVER], ids=["reorder", "repeat", "remove"])
@pytest.mark.parametrize("name", ["another.ts", "zz-later.ts"])
def test_another_extension_may_move_messages(pi: Pi, model: ModelServer, code: str, name: str):
    (pi.agent / "extensions" / name).write_text(code)
    pi.pruning(protections={"recentTurns": 0}, gate={"mode": "off"})
    pi.write("a.txt", "a line of the file\n" * 200)
    pi.write("b.txt", "line 0\n" * 2000)
    both = [("read", {"path": "a.txt"}), ("read", {"path": "b.txt"})]
    model.script = [both, both, both, "Done.", "And on."]
    with pi.rpc() as rpc:
        rpc.prompt("Read both.")
        rpc.prompt("Go on.")
        assert not [note for note in rpc.notes() if "unpruned" in note]
    texts = model.asked[-1].results
    beginnings = {call: "a line" if call.endswith("_0") else "line 0" for call in texts}
    assert all(text.startswith(("[prunewise", beginnings[call])) for call, text in texts.items())
    decisions = {one["correlation"]["toolCallId"]: one["placeholder"] for one in pi.custom("decision")}
    assert decisions
    assert {call: text for call, text in texts.items() if text.startswith("[prunewise")} == decisions


@pytest.mark.parametrize("rewritten", [False, True])
def test_a_text_of_the_same_length_in_the_place_of_one_that_was_sent_is_another(
    pi: Pi, model: ModelServer, rewritten: bool
):
    """Where the first output has become another one since, the third is in view nowhere."""
    if rewritten:
        (pi.agent / "extensions" / "another.ts").write_text(SHOUTER)
    pi.pruning(policy="priced")
    text = pi.write("a.txt", "a line of the file\n" * 50)
    model.script = [
        [("bash", {"command": "cat a.txt"})],
        [("bash", {"command": "ls"})],
        [("bash", {"command": "cat ./a.txt"})],
        "Done.",
    ]
    pi.say("Look at it twice.")
    assert model.asked[3].results["call_1_0"] == (text.upper() if rewritten else text)
    assert model.asked[3].results["call_3_0"].startswith("[prunewise") is not rewritten


def test_two_processes_on_one_session(pi: Pi, model: ModelServer):
    reading_twice(pi, model)
    pi.say("Read it twice.")
    marker = model.asked[2].results["call_1_0"]
    session = str(pi.session)
    with pi.rpc("--session", session) as one, pi.rpc("--session", session) as other:
        for number, rpc in enumerate([one, other, one, other]):
            model.script = [f"Answer {number}."]
            rpc.prompt(f"Question {number}?")
            assert model.asked[-1].results["call_1_0"] == marker
        assert not [note for rpc in (one, other) for note in rpc.notes() if "unpruned" in note]


def test_json_mode_stays_json(pi: Pi, model: ModelServer):
    reading_twice(pi, model)
    done = pi.run("--mode", "json", "Read it twice.")
    assert done.returncode == 0
    assert {json.loads(line)["type"] for line in done.stdout.splitlines()} >= {"session", "agent_end"}
    assert done.stderr == ""
    assert model.asked[2].results["call_1_0"].startswith("[prunewise")


def test_switching_the_model_keeps_what_stands(pi: Pi, model: ModelServer):
    reading_twice(pi, model)
    with pi.rpc() as rpc:
        rpc.prompt("Read it twice.")
        rpc.ask(type="set_model", provider="chat-mock", modelId="large")
        model.script = ["Fine."]
        rpc.prompt("And now?")
    assert model.asked[3].api == "chat"
    assert model.asked[3].results["call_1_0"] == model.asked[2].results["call_1_0"]


EDITOR = """
export default function (pi) {
	let done = false;
	pi.on("turn_end", (event) => {
		if (done || event.toolResultEntryIds.length === 0) return undefined;
		done = true;
		const replacement = { content: [{ type: "text", text: "edited: " + "another text ".repeat(500) }] };
		const edit = { type: "context_edit", targetId: event.toolResultEntryIds[0], replacement };
		return { entries: [...event.entries, edit] };
	});
}
"""


def test_an_output_that_was_edited_in_the_session(pi: Pi, model: ModelServer):
    """What goes out is the edited text, or a marker; recall gives what the entry holds."""
    (pi.agent / "extensions" / "editor.ts").write_text(EDITOR)
    reading_twice(pi, model)
    model.script[-1] = lambda seen: [("recall", {"ref": f"{seen.reference('call_1_0')}:full"})]
    with pi.rpc() as rpc:
        rpc.prompt("Read it twice.")
        assert not [note for note in rpc.notes() if "unpruned" in note]
    assert [one["type"] for one in pi.entries()].count("context_edit") == 1
    assert model.asked[1].results["call_1_0"].startswith("edited: ")
    assert model.asked[2].results["call_1_0"].startswith("[prunewise")
    assert model.asked[-1].results["call_3_0"].startswith(("a line", "edited: "))


DEEP = """
export default function (pi) {
	pi.on("context", ({ messages }) => {
		let details = {};
		for (let depth = 0; depth < 2000; depth++) details = { a: details };
		const deep = (one) => ({ ...one, details, content: [...one.content, { type: "text", text: "!" }] });
		return { messages: messages.map((one) => (one.role === "toolResult" ? deep(one) : one)) };
	});
}
"""


def test_what_is_nested_too_deep_to_be_read_goes_out_at_once(pi: Pi, model: ModelServer):
    """The engine cannot say whose request it was: it is not waited for until the deadline."""
    (pi.agent / "extensions" / "another.ts").write_text(DEEP)
    reading_twice(pi, model)
    started = time.monotonic()
    with pi.rpc(PRUNEWISE_DEADLINE_MS="20000") as rpc:
        rpc.prompt("Read it twice.")
        assert sum("unpruned" in note for note in rpc.notes()) == 1
    assert time.monotonic() - started < 20
    assert model.asked[2].results["call_1_0"].startswith("a line")
