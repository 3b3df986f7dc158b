"""The real pi: which content goes out as markers, which does not, and what stays as it was."""

import base64
import json
import struct
import zlib
from collections import defaultdict

import pytest
from tests.e2e.model_server import Answer, ModelServer
from tests.e2e.pi_agent import Pi

pytestmark = pytest.mark.e2e

LINES = "a line of the file\n" * 100
READ_A = [("read", {"path": "a.txt"})]
FLOOD = """
export default function (pi) {
	pi.registerTool({
		name: "flood",
		label: "Flood",
		description: "Much on one line.",
		parameters: { type: "object", properties: {} },
		async execute() { return { content: [{ type: "text", text: "\\u2028x".repeat(1500000) }] }; },
	});
}
"""
EAGER = {"protections": {"recentTurns": 0}, "gate": {"mode": "off"}}


def png() -> bytes:
    """A picture of 8 x 8 points."""

    def chunk(name: bytes, data: bytes) -> bytes:
        body = name + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    head = struct.pack(">IIBBBBB", 8, 8, 8, 2, 0, 0, 0)
    rows = zlib.compress(b"".join(b"\0" + bytes(24) for _ in range(8)))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def test_superseded_reads_and_failed_inputs(pi: Pi, model: ModelServer):
    pi.pruning(**EAGER, strategies={"errorPurge": {"minTurnsOld": 1}})
    pi.write("a.txt", LINES)
    failing = f"false # {'x' * 500}"
    model.script = [
        READ_A,
        [("bash", {"command": failing})],
        [("write", {"path": "a.txt", "content": "new\n"})],
        "One.",
    ]
    with pi.rpc() as rpc:
        rpc.prompt("Change it.")
        rpc.prompt("Go on.")
        at_one = model.asked[-1]
        rpc.prompt("Go on.")
    before, after = model.asked[2], model.asked[3]
    assert before.results["call_1_0"] == LINES
    assert "the file was changed later; recall #" in after.results["call_1_0"]
    assert at_one.inputs["call_2_0"] == {"command": failing}
    (marker,) = model.asked[-1].inputs["call_2_0"].values()
    assert marker.startswith("[prunewise: bash input")
    assert model.asked[-1].results["call_2_0"] == at_one.results["call_2_0"]
    assert model.asked[-1].inputs["call_3_0"]["content"] == "new\n"


def test_what_is_protected_stays(pi: Pi, model: ModelServer):
    pi.pruning(gate={"mode": "off"}, protections={"recentTurns": 1, "toolNames": ["bash"]})
    (pi.project / "secrets").mkdir()
    for name in ("a.txt", "secrets/b.txt"):
        pi.write(name, LINES)
    calls = [("bash", {"command": "seq 500"}), ("read", {"path": "secrets/b.txt"}), *READ_A]
    model.script = [calls, calls, "Both.", "And on."]
    with pi.rpc() as rpc:
        rpc.prompt("Do it twice.")
        rpc.prompt("Go on.")
    assert model.breaks == 1
    assert not [text for text in model.asked[2].results.values() if text.startswith("[prunewise")]
    pruned = [call for call, text in model.asked[3].results.items() if text.startswith("[prunewise")]
    assert pruned == ["call_1_2"]


def test_the_prefix_changes_with_each_new_decision_and_never_else(pi: Pi, model: ModelServer):
    """On a long session: what the model got, what pi wrote, and what the session file held before."""
    pi.pruning(protections={"recentTurns": 1})
    for name in "abc":
        pi.write(f"{name}.txt", f"{name}\n{LINES * 4}")
    with pi.rpc() as rpc:
        snapshots: list[bytes] = []
        for number in range(12):
            name = "aabbcc"[number % 6]
            model.script = [
                Answer("", (("read", {"path": f"{name}.txt"}), ("bash", {"command": f"echo {number}"}))),
                f"Answer {number}.",
            ]
            rpc.prompt(f"Question {number}.")
            snapshots.append(pi.session.read_bytes())
        (status,) = rpc.command("/context-pruning status")
    texts: dict[str, list[str]] = defaultdict(list)
    for request in model.asked:
        for call, text in request.results.items():
            if not texts[call] or texts[call][-1] != text:
                texts[call].append(text)
    assert all(len(forms) <= 2 and not forms[0].startswith("[prunewise") for forms in texts.values())
    pruned = {call for call, forms in texts.items() if len(forms) == 2}
    decisions = pi.custom("decision")
    assert {one["correlation"]["toolCallId"] for one in decisions} == pruned
    batches = {one["createdAt"] for one in decisions}
    assert len(batches) > 2
    assert model.breaks == len(batches)
    assert f"cache breaks: {len(batches)}" in status
    final = pi.session.read_bytes()
    assert all(final.startswith(earlier) for earlier in snapshots)
    said = [one["message"] for one in pi.entries() if one["type"] == "message"]
    assert "[prunewise" not in json.dumps([one for one in said if one["role"] != "system"])


def test_thinking_and_its_signatures_stay(pi: Pi, model: ModelServer):
    pi.pruning(**EAGER)
    pi.write("a.txt", LINES)
    model.script = [
        Answer("", tuple(READ_A), thinking="First."),
        Answer("Again.", tuple(READ_A), thinking="Second."),
        Answer("Done.", thinking="Third."),
        "Fine.",
    ]
    with pi.rpc() as rpc:
        rpc.prompt("Read it twice.")
        rpc.prompt("Go on.")
    assert model.asked[2].results["call_1_0"].startswith("[prunewise")
    assert [(one["thinking"], one["signature"]) for one in model.asked[3].thoughts] == [
        ("First.", "signature-1"),
        ("Second.", "signature-2"),
        ("Third.", "signature-3"),
    ]


def test_a_picture_is_recalled_with_its_text(pi: Pi, model: ModelServer):
    pi.pruning(**EAGER)
    data = base64.b64encode(png()).decode()
    (pi.project / "a.png").write_bytes(png())
    model.script = [
        [("read", {"path": "a.png"})],
        [("read", {"path": "a.png"})],
        lambda seen: [("recall", {"ref": seen.reference("call_1_0")})],
        "Done.",
    ]
    pi.say("Look at it twice.")
    assert model.asked[2].result("call_1_0") == model.asked[2].results["call_1_0"]
    assert model.asked[2].results["call_1_0"].startswith("[prunewise: read output")
    assert " characters and 1 image) left out" in model.asked[2].results["call_1_0"]
    pictures = [one["source"]["data"] for one in model.asked[3].result("call_3_0") if one["type"] == "image"]
    assert pictures == [data]
    assert [one["type"] for one in model.asked[3].result("call_2_0")] == ["text", "image"]


def test_an_output_on_one_very_long_line(pi: Pi, model: ModelServer):
    (pi.agent / "extensions" / "flood.ts").write_text(FLOOD)
    pi.settings(compaction={"enabled": False})
    pi.pruning(**EAGER)
    model.script = [
        [("flood", {})],
        [("flood", {})],
        lambda seen: [("recall", {"ref": f"{seen.reference('call_1_0')}:full"})],
        "Done.",
    ]
    pi.say("Flood twice.")
    assert model.asked[2].results["call_1_0"].startswith("[prunewise: flood output")
    assert model.asked[3].results["call_3_0"] == "\u2028x" * 1_500_000


def test_sessions_of_the_typescript_extension_go_on(pi: Pi, model: ModelServer):
    pi.pruning(enabled=False)
    pi.write("a.txt", LINES)
    model.script = [READ_A, READ_A, "Done."]
    pi.say("Read it twice.")
    session = pi.session
    decision = {
        "idempotencyKey": "dedupe:tool_result_content:call_1_0",
        "strategyId": "dedupe",
        "correlation": {"type": "toolCallId", "toolCallId": "call_1_0"},
        "kind": "tool_result_content",
        "reason": "Duplicate of a newer call",
        "placeholder": "[pruned: see the newer call]",
        "createdAt": "2026-01-01T00:00:00.000Z",
        "source": "auto",
    }
    entry = {
        "type": "custom",
        "customType": "dynamic-context-pruning:decision",
        "data": decision,
        "id": "0123456789ab",
        "parentId": pi.entries()[-1]["id"],
        "timestamp": "2026-01-01T00:00:00.000Z",
    }
    session.write_text(session.read_text() + json.dumps(entry) + "\n")
    pi.pruning(**EAGER)
    model.script = ["Still there.", READ_A, "Done."]
    with pi.rpc("--session", str(session)) as rpc:
        rpc.prompt("And now?")
        (stats,) = rpc.command("/context-pruning stats")
        rpc.prompt("Once more.")
    assert model.asked[3].results == {"call_1_0": "[pruned: see the newer call]", "call_2_0": LINES}
    assert stats.splitlines()[0] == "saved in all: 0 tokens (estimated)"
    assert model.asked[-1].results["call_2_0"].startswith("[prunewise: read output")
    ours = pi.custom("decision")[-1]
    assert decision.keys() <= ours.keys()
    assert {type(ours[key]) for key in decision} == {str, dict}
    assert ours["correlation"] == {"type": "toolCallId", "toolCallId": "call_2_0"}
    (saved,) = pi.custom("stats")
    assert list(saved) == ["idempotencyKey", "strategyId", "tokensRemoved", "appliedAt"]
    assert saved["idempotencyKey"] == ours["idempotencyKey"]
