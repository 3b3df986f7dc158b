import json
from pathlib import Path

import pytest
from hypothesis import given
from tests.formats.sessions import check_corpus, check_order, never_raises, refuses
from tests.formats.wire import json_values

from prunewise import tools
from prunewise.formats import request_body
from prunewise.formats.reading import Json
from prunewise.recording import Recording
from prunewise.transcript import Transcript

TOOLS = [{"name": "read", "input_schema": {}}]


def user(text: Json) -> dict[str, Json]:
    return {"role": "user", "content": text}


def asks(number: int) -> list[dict[str, Json]]:
    """An answer with a call, and its result."""
    block = {"type": "tool_use", "id": f"c{number}", "name": "read", "input": {"path": "/a"}}
    result = {"type": "tool_result", "tool_use_id": f"c{number}", "content": f"text {number}"}
    return [{"role": "assistant", "content": [block]}, user([result])]


def body(*messages: Json, **more: Json) -> dict[str, Json]:
    return {"model": "m", "messages": list(messages), "tools": TOOLS, **more}


def logged(*bodies: Json, path: str = "/v1/messages") -> bytes:
    rows = [{"n": n, "t": 1000_000_000 + n, "path": path, "body": one} for n, one in enumerate(bodies)]
    return "".join([json.dumps(row) + "\n" for row in rows]).encode()


def read(data: bytes) -> Recording:
    assert request_body.detect(data[:65536])
    recording = request_body.read_recording("s.jsonl", data)
    check_order(recording)  # a log does not hold every answer
    return recording


# ---- which API


@pytest.mark.parametrize(
    ("request_", "path", "name"),
    [
        ({"contents": [{"role": "user", "parts": []}]}, "", "gemini"),
        ({"input": [{"role": "user", "content": "x"}]}, "", "openai-responses"),
        ({"input": "x", "model": "m"}, "", "openai-responses"),
        (body(user("x"), tools=[]), "/v1/messages?beta=true", "anthropic"),
        (body(user("x"), tools=[]), "/v1/chat/completions", "openai-chat"),
        (body(user("x")), "", "anthropic"),
        (body(user("x"), tools=[], system="be good"), "", "anthropic"),
        (body(*asks(1), tools=[]), "", "anthropic"),
        (body(user("x"), tools=[{"type": "function"}]), "", "openai-chat"),
        ([{"role": "tool", "content": "x"}], "", "openai-chat"),
        ([{"type": "function_call", "call_id": "c"}], "", "openai-responses"),
        ([{"role": "user", "content": [{"type": "input_text", "text": "x"}]}], "", "openai-responses"),
        ([{"role": "model", "parts": []}], "", "gemini"),
        ([], "", None),
        ([{"a": 1}], "", None),
        ({"messages": "x"}, "", None),
        ({"a": 1}, "", None),
        ("x", "", None),
    ],
)
def test_tells_the_api(request_: Json, path: str, name: str | None):
    assert request_body.api(request_, path) == name


@pytest.mark.parametrize(
    ("document", "known"),
    [
        ([user("x")], True),
        ([{"role": "user", "parts": []}], True),
        (body(user("x")), True),
        ({"model": "m", "input": "x"}, True),
        ({"input": [{"type": "function_call", "call_id": "c"}]}, True),
        ({"path": "/v1/models", "body": None}, True),
        ({"messages": [{"info": {"role": "user"}, "parts": []}]}, False),
        ({"type": "message", "message": user("x")}, False),
        ({"body": 1}, False),
        ([], False),
    ],
)
def test_detects_bodies(document: Json, known: bool):
    assert request_body.detect(json.dumps(document).encode()) is known


# ---- one body


def test_of_one_body_each_answer_and_the_request_are_calls():
    data = json.dumps(body(user("go"), *asks(1), *asks(2)), indent=1).encode()
    recording = read(data)
    assert (recording.format, recording.session) == ("anthropic", "s")
    assert recording.vocabulary is tools.GENERIC
    (epoch,) = recording.epochs
    assert [call.position for call in epoch.calls] == [1, 3, 5]
    assert [call.model for call in epoch.calls] == ["m"] * 3
    assert len(Transcript(epoch.messages).exchanges) == 2


def test_a_bare_list_is_no_request():
    assert read(json.dumps([user("go"), *asks(1)]).encode()).llm_calls == 1


def test_a_body_that_ends_in_an_answer_asks_nothing_more():
    assert read(json.dumps(body(user("go"), asks(1)[0])).encode()).llm_calls == 1


def test_the_items_of_one_answer_are_one_call():
    items = [
        {"role": "user", "content": "go"},
        {"type": "reasoning", "summary": []},
        {"type": "message", "role": "assistant", "content": "reading"},
        {"type": "function_call", "call_id": "c", "name": "read", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": "x"},
    ]
    (epoch,) = read(json.dumps({"model": "m", "input": items}).encode()).epochs
    assert [call.position for call in epoch.calls] == [1, 5]


# ---- a log


def test_a_log_that_grows_is_one_epoch():
    first = body(user("go"))
    second = body(user("go"), *asks(1))
    third = body(user("go"), *asks(1), *asks(2))
    recording = read(logged(first, second, third))
    (epoch,) = recording.epochs
    assert [call.position for call in epoch.calls] == [1, 3, 5]
    assert [call.time for call in epoch.calls] == [1000_000_000, 1000_000_001, 1000_000_002]
    assert [one.id for one in epoch.messages] == ["m0", "m1", "m2", "m3", "m4"]


def test_bodies_one_a_line_are_a_log_too():
    data = "".join(
        [json.dumps(one) + "\n" for one in (body(user("go")), body(user("go"), *asks(1)))]
    ).encode()
    assert [call.position for call in read(data).epochs[0].calls] == [1, 3]


@pytest.mark.parametrize(
    ("tail", "later"),
    [
        ("go", [{"type": "text", "text": "go", "cache_control": {"type": "ephemeral"}}]),
        ([{"type": "text", "text": "go", "cache_control": {"type": "ephemeral"}}], "go"),
        ([{"type": "text", "text": "go"}], [{"text": "go", "type": "text"}]),
    ],
)
def test_breakpoints_and_the_form_of_a_text_make_no_difference(tail: Json, later: Json):
    assert len(read(logged(body(user(tail)), body(user(later), *asks(1)))).epochs) == 1


def test_side_requests_are_no_calls():
    title = {"model": "small", "messages": [user("a title for: go")]}
    recording = read(logged(title, body(user("go")), title, body(user("go"), *asks(1))))
    assert recording.llm_calls == 2
    assert len(recording.epochs) == 1


def test_counting_tokens_is_no_call():
    rows = [
        {"path": "/v1/messages", "body": body(user("go"))},
        {"path": "/v1/messages/count_tokens?beta=true", "body": body(user("x"))},
        {"path": "/v1beta/models/g:countTokens", "body": {"contents": [{"role": "user", "parts": []}]}},
        {"path": "/v1/models", "body": None},
    ]
    assert read("".join([json.dumps(row) + "\n" for row in rows]).encode()).llm_calls == 1


def test_where_no_request_declares_tools_all_are_calls():
    recording = read(logged(body(user("go"), tools=[]), body(user("go"), *asks(1), tools=[])))
    assert recording.llm_calls == 2


def test_a_history_that_shrinks_begins_an_epoch():
    grown = [user("go"), *asks(1), *asks(2)]
    recording = read(logged(body(*grown), body(user("go"), user("so far: ..."), *asks(3))))
    first, second = recording.epochs
    assert (first.ended_by, len(first.messages)) == ("compaction", 5)
    assert [one.id for one in second.messages] == ["m0", "2.m1", "2.m2", "2.m3"]


def test_a_return_to_an_earlier_message_is_a_rewind():
    grown = [user("go"), *asks(1), *asks(2)]
    recording = read(logged(body(*grown), body(user("go"), *asks(1), user("no, this"))))
    assert [epoch.ended_by for epoch in recording.epochs] == ["rewind", "end"]
    assert [one.id for one in recording.epochs[1].messages] == ["m0", "m1", "m2", "2.m3"]


def test_the_same_request_again_is_another_call():
    (epoch,) = read(logged(body(user("go")), body(user("go")))).epochs
    assert [call.position for call in epoch.calls] == [1, 1]


@pytest.mark.parametrize(
    "more", [{"previous_response_id": "r1"}, {"thread": {"type": "continue", "previous_message_id": "m"}}]
)
def test_deltas_are_put_together(more: Json):
    first = {"model": "m", "input": [{"role": "user", "content": "go"}], "tools": TOOLS}
    second = {
        "model": "m",
        "input": [{"type": "function_call_output", "call_id": "c", "output": "x"}],
        **more,
    }
    (epoch,) = read(logged(first, second, path="/v1/responses")).epochs
    assert [call.position for call in epoch.calls] == [1, 2]


def test_the_model_may_be_in_the_address():
    data = logged(
        {"contents": [{"role": "user", "parts": []}]}, path="/v1beta/models/g-2:streamGenerateContent"
    )
    assert read(data).epochs[0].calls[0].model == "g-2"


def test_lines_that_hold_no_request_are_left_out():
    data = logged(body(user("go")), {"odd": 1}) + b"{broken\n"
    recording = request_body.read_recording("s.jsonl", data)
    assert [one.split(": ")[0] for one in recording.warnings] == ["s.jsonl:2", "s.jsonl:3"]
    assert recording.llm_calls == 1


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"{}", b"{}\n{}\n", b'{"path":"/","body":null}\n'])
def test_refuses_what_is_none(data: bytes):
    refuses(request_body.read_recording, data)


@given(json_values)
def test_never_raises(value: Json):
    read_recording = request_body.read_recording
    never_raises(read_recording, json.dumps(value).encode())
    for key in ("messages", "input", "contents"):
        never_raises(read_recording, json.dumps({"model": "m", key: [value, value]}).encode())
        rows = [{key: [value], "tools": [1]}, {key: [value, value], "tools": value}, {key: value}]
        never_raises(read_recording, logged(*rows, path=""))


# ---- the corpus


@pytest.mark.corpus
def test_corpus(shared: Path):
    found = check_corpus(shared, "gemini-contents", request_body.detect, request_body.read_recording, {})
    assert [recording.format for recording in found.values()] == ["gemini"]


# By client: the API, the LLM calls of each epoch, and how many requests are none of the conversation and why.
LOGS = {
    "claude": ("anthropic", [11]),  # without the title
    "claude2_opus48": ("anthropic", [4]),
    "claude2_reread": ("anthropic", [15]),  # without one count of tokens
    "claude2_sonnet": ("anthropic", [4]),
    "claude_compact": ("anthropic", [5]),
    "claude_dedupe_vs_prune": ("anthropic", [3, 1, 1, 1]),  # recorded behind a gateway that pruned
    "claude_mcp_eager": ("anthropic", [3]),
    "codex": ("openai-responses", [11]),
    "codex_compact": ("openai-responses", [1, 1, 1, 1]),  # without the four requests for a summary
    "codex_gpt55": ("openai-responses", [11]),
    "codex_mcp6": ("openai-responses", [3]),
    "gemini": ("gemini", [11]),  # without one count of tokens
    "litellm_chat": ("openai-chat", [11]),
    "mini_chat": ("openai-chat", [13]),
    "opencode": ("anthropic", [11]),  # without the title
    "opencode_compat": ("openai-chat", [11]),  # without the title
    "opencode_openai": ("openai-responses", [11]),  # without the title
    "py_agents_chat": ("openai-chat", [11]),
    "py_agents_prev": ("openai-responses", [11]),
    "py_anthropic": ("anthropic", [2]),
    "py_anthropic_nothread": ("anthropic", [11]),
    "py_deep_anthropic": ("anthropic", [11]),
    "py_lc_anthropic": ("anthropic", [11]),
    "py_openai_resp": ("openai-responses", [11]),
    "py_pyd_anthropic": ("anthropic", [11]),
    "qwen2": ("openai-chat", [15]),
    "qwen_reread": ("openai-chat", [15]),
}


@pytest.mark.corpus
def test_recorded_clients(shared: Path):
    found = {}
    for path in sorted((shared / "clients" / "recordings").glob("*/requests.jsonl")):
        recording = read(path.read_bytes())
        found[path.parent.name] = (recording.format, [len(epoch.calls) for epoch in recording.epochs])
    assert found == LOGS
