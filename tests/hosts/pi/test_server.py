"""The engine process: one answer a line, whatever comes in."""

import io
import json
import os
import subprocess
import sys
from typing import Any

import pytest
from tests.hosts.pi.support import Talk

from prunewise import __version__
from prunewise.hosts.pi.protocol import FAILED, VERSION, WRONG_VERSION
from prunewise.hosts.pi.server import serve

HEADER = {"type": "session", "version": 3, "id": "s", "timestamp": "2026-01-01T00:00:00.000Z", "cwd": "/"}
HELLO = {"protocol": VERSION, "cwd": "/", "header": HEADER}


def served(*lines: object) -> list[dict[str, Any]]:
    """The answers to these lines."""
    raw = b"".join(line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n" for line in lines)
    output = io.BytesIO()
    serve(io.BytesIO(raw), output)
    return [json.loads(line) for line in output.getvalue().splitlines()]


def asked(method: str, id: int | None = 1, **params: object) -> dict[str, Any]:
    request = {"jsonrpc": "2.0", "method": method, "params": params}
    return request if id is None else {**request, "id": id}


def test_a_greeting_is_answered():
    (answer,) = served(asked("hello", **HELLO))
    assert answer["jsonrpc"] == "2.0"
    assert answer["id"] == 1
    assert answer["result"]["version"] == __version__
    assert "gate off" in answer["result"]["completions"]["context-pruning"]


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"not json\n", -32700),
        (b"[]\n", -32700),
        (asked("fly"), -32601),
        (asked("context", view={}), FAILED),
        (asked("hello", **{**HELLO, "protocol": 99}), WRONG_VERSION),
        (asked("hello", **{**HELLO, "cwd": 5}), FAILED),
    ],
)
def test_what_fails_gets_an_error_and_the_next_is_served(line: object, code: int):
    wrong, right = served(line, asked("hello", 2, **HELLO))
    assert wrong["error"]["code"] == code
    assert right["id"] == 2


def test_a_notification_and_a_blank_line_get_no_answer():
    assert len(served(b"\n", asked("hello", None, **HELLO), asked("nothing", 5))) == 1


def test_a_session_in_memory_over_the_wire(tmp_path: Any):
    talk = Talk(tmp_path, in_memory=True)
    talk.say("Hello \u2028 there")
    talk.call("bash", command="ls")
    view = {
        "base": None,
        "leaf": talk.leaf,
        "messages": [[one["id"]] for one in talk.branch],
        "entries": talk.records,
        "window": 1000,
        "reserve": 10,
    }
    _, context, command, answer, recalled, unknown = served(
        asked("hello", **HELLO),
        asked("context", 2, view=view),
        asked("command", 3, view={**view, "base": 1, "keep": 3, "messages": [], "entries": []}, name="prune"),
        asked("answer", 4, dialog=1, value=None),
        asked("recall", 5, ref=talk.branch[2]["id"]),
        asked("recall", 6, ref="#99"),
    )
    assert context["result"]["token"] == 1
    assert command["result"]["action"]["type"] == "say"
    assert "action" not in answer["result"]
    assert recalled["result"]["content"][0]["text"].startswith("a line")
    assert unknown["error"]["code"] == FAILED


def test_half_a_character_does_no_harm(tmp_path: Any):
    talk = Talk(tmp_path, in_memory=True)
    talk.say("half: \ud83d")
    talk.call("bash", "\udc00" * 5000, command="x \ud83d")
    talk.answer("Fine.", tokens=9_000)
    talk.say("Go on.")
    view = {
        "leaf": talk.leaf,
        "messages": [[one["id"], one["message"]] for one in talk.branch],
        "entries": talk.records,
        "window": 5000,
        "reserve": 10,
    }
    _, context = served(asked("hello", **HELLO), asked("context", 2, view=view))
    assert "error" not in context, context
    ((_, ((_, kind, text, _),)),) = context["result"]["edits"]
    assert kind == "tool_result_content"
    assert "\ud83d" in text


def test_the_process_ends_with_its_input_and_prints_nothing_else():
    done = subprocess.run(
        [sys.executable, "-P", "-u", "-m", "prunewise.hosts.pi"],
        input=json.dumps(asked("hello", **HELLO)) + "\n",
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
        env=dict(os.environ),
    )
    assert json.loads(done.stdout)["result"]["protocol"] == VERSION
    assert done.stderr == ""


def test_nobody_to_read_the_answers_is_the_end():
    class Closed(io.BytesIO):
        def flush(self) -> None:
            raise BrokenPipeError

    serve(io.BytesIO(json.dumps(asked("hello", **HELLO)).encode() + b"\n" + b"x\n"), Closed())
