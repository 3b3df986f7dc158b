import copy

import pytest
from hypothesis import given
from tests.formats.wire import (
    changed_paths,
    check_reads_anything,
    check_request,
    json_values,
    pruned,
    transcript,
)

from prunewise import InputError, Pruner, formats, tools
from prunewise.formats.gemini import GEMINI, NAME
from prunewise.formats.reading import Json
from prunewise.transcript import (
    TOOL_INPUT,
    TOOL_RESULT,
    Image,
    Opaque,
    ReplacePart,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)

PICTURE = {"inlineData": {"mimeType": "image/png", "data": "AAAA"}}


def body() -> dict[str, Json]:
    return {
        "systemInstruction": {"parts": [{"text": "be good"}]},
        "contents": [
            {"role": "user", "parts": [{"text": "fix it"}, PICTURE]},
            {
                "role": "model",
                "parts": [
                    {"text": "hm", "thought": True, "thoughtSignature": "s0"},
                    {"text": "reading", "thoughtSignature": "s1"},
                    {
                        "functionCall": {"id": "c1", "name": "read_file", "args": {"file_path": "/a"}},
                        "thoughtSignature": "s2",
                    },
                    {"functionCall": {"id": "c2", "name": "replace", "args": {"file_path": "/a"}}},
                ],
            },
            {
                "role": "user",
                "parts": [
                    {"functionResponse": {"id": "c1", "name": "read_file", "response": {"output": "text"}}},
                    {"functionResponse": {"id": "c2", "name": "replace", "response": {"error": "no match"}}},
                    PICTURE,
                ],
            },
        ],
    }


def test_is_named():
    assert formats.named(NAME) is GEMINI
    assert GEMINI.vocabulary is tools.GENERIC_GEMINI


def test_reads_roles_and_parts():
    read = transcript(GEMINI, body())
    assert [message.role for message in read.messages] == ["user", "assistant", "tool"]
    assert read.messages[0].parts == (Text("fix it"), Image("image/png", 4))
    assert read.messages[1].parts == (
        Thinking("hm", "s0"),
        Text("reading"),
        ToolCall("c1", "read_file", {"file_path": "/a"}, '{"file_path":"/a"}'),
        ToolCall("c2", "replace", {"file_path": "/a"}, '{"file_path":"/a"}'),
    )
    assert read.messages[2].parts == (
        ToolResult("c1", "read_file", (Text("text"),)),
        ToolResult("c2", "replace", (Text("no match"),), is_error=True),
        Image("image/png", 4),
    )
    assert [exchange.call.id for exchange in read.exchanges] == ["c1", "c2"]


@pytest.mark.parametrize(
    ("parts", "role"),
    [
        ([{"functionResponse": {"name": "f", "response": {}}}, {"text": "and"}], "user"),
        ([{"functionResponse": {"name": "f", "response": {}}}], "tool"),
        ([PICTURE], "user"),
        ([], "user"),
    ],
)
def test_a_content_of_responses_alone_is_the_tools(parts: Json, role: str):
    assert GEMINI.read({"role": "user", "parts": parts}, "m").role == role
    assert GEMINI.read({"role": "function", "parts": parts}, "m").role == role
    assert GEMINI.read({"parts": parts}, "m").role == role


@pytest.mark.parametrize(
    ("response", "text", "replaced"),
    [
        ({"output": "a"}, "a", {"output": "x"}),
        ({"result": "a"}, "a", {"result": "x"}),
        ({"output": "a", "exit": 1}, '{"exit":1,"output":"a"}', {"output": "x"}),
        ({"error": {"code": 1}}, '{"error":{"code":1}}', {"error": "x"}),
        ({"rows": []}, '{"rows":[]}', {"output": "x"}),
        ("a", "a", {"output": "x"}),
        ([1], "[1]", {"output": "x"}),
        ({}, "", {"output": "x"}),
        (None, "", {"output": "x"}),
    ],
)
def test_a_replaced_response_stays_an_object(response: Json, text: str, replaced: Json):
    content = {
        "role": "user",
        "parts": [{"functionResponse": {"id": "c", "name": "f", "response": response}}],
    }
    (part,) = GEMINI.read(content, "m").parts
    assert isinstance(part, ToolResult)
    assert part.text == text
    assert part.has_text == bool(text)
    new = GEMINI.apply(content, [ReplacePart("m", 0, 0, TOOL_RESULT, "x")])
    assert new["parts"][0]["functionResponse"]["response"] == replaced


def test_images_of_a_response_can_stay():
    answer = {"id": "c", "name": "f", "response": {"output": "a"}, "parts": [PICTURE]}
    content = {"role": "user", "parts": [{"functionResponse": answer}]}
    (part,) = GEMINI.read(content, "m").parts
    assert part == ToolResult("c", "f", (Text("a"), Image("image/png", 4)))
    kept = GEMINI.apply(content, [ReplacePart("m", 0, 0, TOOL_RESULT, "x", keep_images=True)])
    assert kept["parts"][0]["functionResponse"] == {**answer, "response": {"output": "x"}}
    gone = GEMINI.apply(content, [ReplacePart("m", 0, 0, TOOL_RESULT, "x")])
    assert list(gone["parts"][0]["functionResponse"]) == ["id", "name", "response"]


def test_the_python_librarys_spelling():
    contents = [
        {"role": "model", "parts": [{"function_call": {"id": "c", "name": "f", "args": {}}}]},
        {
            "role": "user",
            "parts": [
                {"function_response": {"id": "c", "name": "f", "response": {"output": "a"}}},
                {"inline_data": {"mime_type": "image/png", "data": "AA"}},
            ],
        },
    ]
    read = transcript(GEMINI, contents)
    assert len(read.exchanges) == 1
    assert read.messages[1].parts[1] == Image("image/png", 2)
    assert changed_paths(contents, pruned(GEMINI, contents)) == [
        (0, "parts", 0, "function_call", "args"),
        (1, "parts", 0, "function_response", "response", "output"),
    ]


def test_an_edit_changes_its_part_alone():
    request = body()
    before = copy.deepcopy(request)
    new = pruned(GEMINI, request)
    assert request == before
    assert changed_paths(request, new) == [
        ("contents", 1, "parts", 2, "functionCall", "args"),
        ("contents", 1, "parts", 3, "functionCall", "args"),
        ("contents", 2, "parts", 0, "functionResponse", "response", "output"),
        ("contents", 2, "parts", 1, "functionResponse", "response", "error"),
    ]
    assert new["contents"][1]["parts"][2]["functionCall"]["args"] == {"pruned": "[marker]"}


def without_ids(rounds: list[tuple[list[tuple[str, Json]], list[tuple[str, str]]]]) -> list[dict[str, Json]]:
    contents: list[dict[str, Json]] = [{"role": "user", "parts": [{"text": "go"}]}]
    for calls, answers in rounds:
        contents.append(
            {
                "role": "model",
                "parts": [{"functionCall": {"name": name, "args": args}} for name, args in calls],
            }
        )
        parts = [{"functionResponse": {"name": name, "response": {"output": text}}} for name, text in answers]
        contents.append({"role": "user", "parts": parts})
    return contents


def test_calls_without_ids_are_matched_by_name_and_order():
    contents = without_ids(
        [
            (
                [("read", {"p": 1}), ("ls", {}), ("read", {"p": 2})],
                [("ls", "l"), ("read", "one"), ("read", "two")],
            ),
            ([("read", {"p": 1})], [("read", "one")]),
        ]
    )
    read = transcript(GEMINI, contents)
    pairs = {(one.call.text, one.result.text) for one in read.exchanges}
    assert pairs == {('{"p":1}', "one"), ("{}", "l"), ('{"p":2}', "two")}
    assert len({one.call.id for one in read.exchanges}) == 4
    assert not any(one.reused_id for one in read.exchanges)


def asked(*calls: tuple[str, int]) -> dict[str, Json]:
    return {
        "role": "model",
        "parts": [{"functionCall": {"name": name, "args": {"p": number}}} for name, number in calls],
    }


def replied(*texts: str, name: str = "read", then: str = "") -> dict[str, Json]:
    parts: list[Json] = [{"functionResponse": {"name": name, "response": {"output": text}}} for text in texts]
    return {"role": "user", "parts": [*parts, {"text": then}] if then else parts}


def said(text: str = "stop", role: str = "user") -> dict[str, Json]:
    return {"role": role, "parts": [{"text": text}]}


ONE, TWO = asked(("read", 1)), asked(("read", 2))


@pytest.mark.parametrize(
    ("contents", "pairs"),
    [
        pytest.param([ONE, said(), TWO, replied("two")], {2: "two"}, id="stopped, then another"),
        pytest.param([ONE, TWO, replied("two")], {2: "two"}, id="cut off, then another"),
        pytest.param([ONE, said(), replied("late")], {}, id="the user spoke in between"),
        pytest.param([ONE, said(role="model"), replied("late")], {}, id="the model spoke in between"),
        pytest.param(
            [ONE, said(), TWO, replied("two"), asked(("read", 3)), replied("three")],
            {2: "two", 3: "three"},
            id="those behind an unanswered one",
        ),
        pytest.param([asked(("read", 1), ("read", 2)), replied("one")], {}, id="one of two is missing"),
        pytest.param([ONE, replied("one", "two")], {}, id="one too many"),
        pytest.param(
            [asked(("read", 1), ("ls", 2), ("read", 3)), replied("one", "three")],
            {1: "one", 3: "three"},
            id="another tool's is missing",
        ),
        pytest.param(
            [asked(("read", 1), ("read", 2)), replied("one"), replied("two")],
            {1: "one", 2: "two"},
            id="in a content each",
        ),
        pytest.param([ONE, TWO, replied("one", "two")], {1: "one", 2: "two"}, id="asked in a content each"),
        pytest.param(
            [ONE, replied("one", then="and go on"), TWO, replied("two")], {1: "one", 2: "two"}, id="text"
        ),
        pytest.param([replied("nobody's"), ONE, replied("one")], {1: "one"}, id="no call at all"),
        pytest.param([ONE, replied("one", name="ls"), TWO, replied("two")], {2: "two"}, id="another name"),
    ],
)
def test_a_response_without_an_id_answers_the_calls_directly_before_it(
    contents: list[Json], pairs: dict[int, str]
):
    read = transcript(GEMINI, [said("go"), *contents])
    assert {one.call.arguments["p"]: one.result.text for one in read.exchanges} == pairs


def test_ids_that_are_made_up_stay_while_the_conversation_grows():
    contents = [said(), ONE, said(), TWO, replied("two"), asked(("read", 3), ("ls", 4)), replied("three")]
    known: dict[int, str] = {}
    for end in range(len(contents) + 1):
        found = {one.call_position: one.call.id for one in transcript(GEMINI, contents[:end]).exchanges}
        assert known.items() <= found.items()
        known = found
    assert len(known) == 2


@pytest.mark.parametrize("dropped", range(1, 6))
@pytest.mark.parametrize("summary", [[], [said("so far")]])
def test_no_call_gets_an_id_that_another_had_before_earlier_contents_went(dropped: int, summary: list[Json]):
    """Calls that are alike, with responses that are alike: none can be told by what it holds."""
    contents = [said("go"), *[ONE, replied("one")] * 4]
    before = {one.call.id for one in transcript(GEMINI, contents).exchanges}
    after = {one.call.id for one in transcript(GEMINI, [*summary, *contents[dropped:]]).exchanges}
    assert len(before) == 4
    assert before.isdisjoint(after)


def test_contents_without_ids_go_out_bare():
    contents = without_ids([([("read", {"p": 1})], [("read", "one")])])
    check_request(GEMINI, contents)
    check_request(GEMINI, {"contents": contents})
    assert changed_paths(contents, pruned(GEMINI, contents)) == [
        (1, "parts", 0, "functionCall", "args"),
        (2, "parts", 0, "functionResponse", "response", "output"),
    ]


def test_a_decision_on_a_call_without_an_id_stands():
    pruner = Pruner("gemini")
    contents = without_ids([([("read", {"p": 1})], [("read", "one" * 400)])])
    assert pruner.prune(contents) == contents
    (first,) = [one.call.id for one in transcript(GEMINI, contents).exchanges]
    pruner.prune_call(first)
    longer = copy.deepcopy(contents) + without_ids([([("read", {"p": 2})], [("read", "two")])])[1:]
    outgoing = pruner.prune(longer)
    assert changed_paths(longer, outgoing) == [(2, "parts", 0, "functionResponse", "response", "output")]
    assert all(type(content) is dict for content in outgoing)


def test_calls_that_nothing_answers_are_opaque():
    contents = without_ids([([("read", {}), ("ls", {})], [("grep", "x")])])
    read = transcript(GEMINI, contents)
    assert [type(part) for part in read.messages[1].parts] == [Opaque, Opaque]
    assert read.exchanges == []


@pytest.mark.parametrize(("part", "kind"), [(1, TOOL_INPUT), (2, TOOL_RESULT), (9, TOOL_INPUT)])
def test_an_edit_that_is_not_of_the_content_changes_nothing(part: int, kind: Json):
    content = body()["contents"][1]
    assert GEMINI.apply(content, [ReplacePart("m", 0, part, kind, "x")]) is content


def test_takes_bodies_and_lists():
    request = body()
    assert GEMINI.messages(request) is request["contents"]
    check_request(GEMINI, request)
    with pytest.raises(InputError, match="contents"):
        GEMINI.messages({"messages": []})


@given(json_values)
def test_reads_anything(value: Json):
    check_reads_anything(GEMINI, value)
    check_reads_anything(GEMINI, {"role": "user", "parts": [value]})
    parts = [{"functionCall": value}, {"functionResponse": {"name": "f", "response": value, "parts": value}}]
    check_reads_anything(GEMINI, {"role": "model", "parts": parts})
    check_request(GEMINI, {"contents": [value, {"role": "model", "parts": parts}]})
