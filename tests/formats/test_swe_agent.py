import json
from pathlib import Path

import pytest
from hypothesis import given
from tests.formats.sessions import check, check_corpus, never_raises, refuses
from tests.formats.wire import json_values

from prunewise.formats import swe_agent
from prunewise.formats.reading import Json
from prunewise.recording import Recording
from prunewise.transcript import Text, ToolCall, ToolResult, Transcript


def step(action: str, observation: Json, thought: str = "") -> dict[str, Json]:
    state = json.dumps({"open_file": "n/a", "working_dir": "/repo"})
    return {"action": action, "observation": observation, "response": "r", "state": state, "thought": thought}


def read(*steps: Json, history: Json = ()) -> Recording:
    data = json.dumps({"environment": "main", "trajectory": list(steps), "history": list(history)}).encode()
    assert not steps or swe_agent.detect(data[:65536])
    recording = swe_agent.read_recording("runs/r1.traj", data)
    check(recording)
    return recording


def test_each_step_is_a_call_with_its_result():
    recording = read(step("ls\n", "a.py", "Let us look"), step("cat a.py", "print()"))
    assert (recording.format, recording.session, recording.cwd) == ("swe-agent", "r1", "/repo")
    (epoch,) = recording.epochs
    assert epoch.messages[0].parts == (
        Text("Let us look"),
        ToolCall("step-1", "bash", {"command": "ls\n"}, '{"command":"ls\\n"}'),
    )
    assert epoch.messages[1].parts == (ToolResult("step-1", "bash", (Text("a.py"),)),)
    assert [call.position for call in epoch.calls] == [0, 2]
    assert [call.usage for call in epoch.calls] == [None, None]
    assert len(Transcript(epoch.messages).exchanges) == 2


def test_demonstrations_are_sent_and_are_no_calls():
    history = [
        {"role": "system", "content": "be good", "agent": "primary"},
        {"role": "user", "content": "a demonstration", "is_demo": True, "agent": "primary"},
        {"role": "assistant", "content": "of another's step", "is_demo": True, "agent": "primary"},
        {"role": "user", "content": "solve this", "agent": "primary"},
        {"role": "assistant", "content": "ls", "agent": "primary"},
        {"role": "user", "content": "a.py", "agent": "primary"},
    ]
    recording = read(step("ls", "a.py"), history=history)
    (epoch,) = recording.epochs
    assert [one.role for one in epoch.messages] == ["system", "other", "other", "user", "assistant", "tool"]
    assert recording.llm_calls == 1


@pytest.mark.parametrize(
    ("observation", "failed"),
    [
        ("Your proposed edit has introduced new syntax error(s). Please read this", True),
        ("Traceback (most recent call last):", True),
        ("bash: x: command not found", True),
        ("ls: cannot access 'x': No such file or directory", True),
        ("cat: 'x': No such file or directory", True),
        ("/bin/bash: line 3: x: command not found", True),
        ("What to do about the message No such file", False),
        ("Errors: 0, warnings: 3", False),
        ("ErrorKind = Enum('ErrorKind', 'a b')", False),
        ("error.py", False),
        ("Error: no tests found", True),
        ("Error executing it", True),
        ("x: y\n" * 100 + "x: No such file", False),
        ("all well", False),
        ("", False),
        (None, False),
    ],
)
def test_tells_failures_by_what_is_printed(observation: Json, failed: bool):
    (epoch,) = read(step("x", observation)).epochs
    (result,) = epoch.messages[1].parts
    assert isinstance(result, ToolResult)
    assert result.is_error is failed
    assert result.has_text is bool(observation)


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b'{"trajectory":7}', b'{"trajectory":['])
def test_refuses_what_is_none(data: bytes):
    refuses(swe_agent.read_recording, data)


@given(json_values)
def test_never_raises(value: Json):
    odd = {"action": value, "observation": value, "state": value, "thought": value}
    document = {"trajectory": [odd, value], "history": [{"role": "user", "content": value}, value]}
    never_raises(swe_agent.read_recording, json.dumps(document).encode())


@pytest.mark.corpus
def test_corpus(shared: Path):
    found = check_corpus(shared, "swe-agent", swe_agent.detect, swe_agent.read_recording, exceptions={})
    assert len(found) == 21
