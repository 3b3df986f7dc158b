"""The transcript's index: which result belongs to which call, turns, state, what has been sent."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import build
from tests.build import Native, assistant, call, flat, other, read, result, shell, summary, user

from prunewise import tools
from prunewise.formats.openai_responses import OPENAI_RESPONSES
from prunewise.transcript import (
    TOOL_INPUT,
    TOOL_RESULT,
    Image,
    Message,
    Role,
    Text,
    ToolCall,
    ToolResult,
    Transcript,
    Usage,
)

# ---------------------------------------------------------------- pairing

PAIRS: dict[str, tuple[list[Native], list[tuple[str, int, int, int]]]] = {
    # messages; for each exchange in the order of results: call id, call order, position of call and result
    "no messages": ([], []),
    "a call and its result": (read("a", "f"), [("a", 0, 0, 1)]),
    "a call without a result": ([assistant(call("a", "read"))], []),
    "a result without a call": ([result("a")], []),
    "a result before its call": ([result("a"), assistant(call("a", "read"))], []),
    "a second result of one call": ([*read("a", "f"), result("a", "again")], [("a", 0, 0, 1)]),
    "parallel calls, results in order": (
        [assistant(call("a", "x"), call("b", "x")), result("a"), result("b")],
        [("a", 0, 0, 1), ("b", 1, 0, 2)],
    ),
    "parallel calls, results in another order": (
        [assistant(call("a", "x"), call("b", "x")), result("b"), result("a")],
        [("b", 1, 0, 1), ("a", 0, 0, 2)],
    ),
    "one of two parallel calls is still in flight": (
        [assistant(call("a", "x"), call("b", "x")), result("b")],
        [("b", 1, 0, 1)],
    ),
    "a user message in between": ([assistant(call("a", "x")), user(), result("a")], [("a", 0, 0, 2)]),
    "a result of an answer that is long gone by": (
        [assistant(call("a", "x")), *read("b", "f"), result("a")],
        [("b", 1, 1, 2), ("a", 0, 0, 3)],
    ),
    "one id used twice, each with its result": (
        [*read("a", "f"), *read("a", "g")],
        [("a", 0, 0, 1), ("a", 1, 2, 3)],
    ),
    "one id called twice before a result: the later call has it": (
        [assistant(call("a", "x")), assistant(call("a", "y")), result("a")],
        [("a", 1, 1, 2)],
    ),
}


@pytest.mark.parametrize(("natives", "pairs"), PAIRS.values(), ids=PAIRS)
def test_pairing(natives: list[Native], pairs: list[tuple[str, int, int, int]]):
    exchanges = build.transcript(natives).exchanges
    assert [(one.call.id, one.order, one.call_position, one.result_position) for one in exchanges] == pairs


def test_an_id_used_twice_is_marked_and_leads_to_the_first():
    transcript = build.transcript(read("a", "f"), read("a", "g"), read("b", "g"))
    assert [one.reused_id for one in transcript.exchanges] == [False, True, False]
    assert transcript.exchange("a") is transcript.exchanges[0]
    assert transcript.exchange("b") is transcript.exchanges[2]
    assert transcript.exchange("c") is None


def test_an_exchange_knows_where_its_input_and_its_result_are():
    transcript = build.transcript(
        user(), assistant("text", call("a", "x"), call("b", "x")), user(), result("b")
    )
    (exchange,) = transcript.exchanges
    assert (exchange.position(TOOL_INPUT), exchange.part(TOOL_INPUT), exchange.call_turn) == (1, 2, 1)
    assert (exchange.position(TOOL_RESULT), exchange.part(TOOL_RESULT), exchange.result_turn) == (
        3,
        0,
        2,
    )


def test_results_that_stand_in_a_user_message_belong_to_their_calls():
    calls = Message("assistant", "m0", (ToolCall("a", "x", {}, "{}"), ToolCall("b", "x", {}, "{}")))
    results = Message("user", "m1", (Text("and"), ToolResult("b", "x", ()), ToolResult("a", "x", ())))
    found = Transcript([calls, results]).exchanges
    assert [(one.call.id, one.result_position, one.result_part, one.result_turn) for one in found] == [
        ("b", 1, 1, 1),
        ("a", 1, 2, 1),
    ]


@pytest.mark.parametrize("role", ["system", "shell", "other", "assistant"])
def test_results_elsewhere_are_not_taken_for_answers(role: Role):
    calls = Message("assistant", "m0", (ToolCall("a", "x", {}, "{}"),))
    assert Transcript([calls, Message(role, "m1", (ToolResult("a", "x", ()),))]).exchanges == []


@pytest.mark.parametrize("role", ["system", "shell", "other", "user", "tool"])
def test_only_the_assistant_calls(role: Role):
    calls = Message(role, "m0", (ToolCall("a", "x", {}, "{}"),))
    transcript = Transcript([calls, Message("tool", "m1", (ToolResult("a", "x", ()),))])
    assert (transcript.exchanges, transcript.llm_calls) == ([], 0)


def test_file_operations_are_resolved_against_the_working_directory():
    transcript = build.transcript(read("a", "./x/../f"), build.bash("b", "cat f"), cwd="/w")
    path, none = (one.operation for one in transcript.exchanges)
    assert path is not None
    assert (path.action, path.path) == ("read", "/w/f")
    assert none is None


STUBS = msgspec.structs.replace(tools.PI, unchanged_stubs=("File unchanged", "[File "))


@pytest.mark.parametrize(
    ("text", "refers_back"),
    [
        ("File unchanged since last read.", True),
        ("[File f unchanged]", True),
        ("a\nFile unchanged", False),
        ("file unchanged", False),
        ("", False),
    ],
)
def test_a_note_that_a_file_is_unchanged_is_no_read(text: str, refers_back: bool):
    (exchange,) = build.transcript(read("a", "f", text), vocabulary=STUBS).exchanges
    assert exchange.refers_back is refers_back
    assert (exchange.operation is None) is refers_back


def test_a_host_without_such_notes_has_none():
    (exchange,) = build.transcript(read("a", "f", "File unchanged since last read.")).exchanges
    assert not exchange.refers_back
    assert exchange.operation is not None


# ---------------------------------------------------------------- turns, state, sent


def test_only_a_user_message_starts_a_turn():
    natives = flat(
        other(), user(), read("a", "f"), shell("ls", ""), summary(), other(), user(), user(), assistant("x")
    )
    transcript = build.transcript(natives)
    assert transcript.turns == [0, 1, 1, 1, 1, 1, 1, 2, 3, 3]
    assert transcript.turn == 3


STATES: dict[str, tuple[list[Native], str, int]] = {
    "nothing yet": ([], "idle", 0),
    "the user spoke last": ([*read("a", "f"), assistant("done"), user()], "idle", 3),
    "the assistant spoke last": ([user(), assistant("done")], "mid_loop", 2),
    "a result came last": ([user(), *read("a", "f")], "mid_loop", 2),
    "a result came after the user spoke": ([assistant(call("a", "x")), user(), result("a")], "mid_loop", 1),
    "a shell command after the user": ([assistant("done"), user(), shell("ls", "")], "idle", 1),
    "a note after a result": ([user(), *read("a", "f"), other()], "mid_loop", 2),
    "nothing but notes and summaries": ([summary(), other(), shell("ls", "")], "idle", 0),
}


@pytest.mark.parametrize(("natives", "state", "sent"), STATES.values(), ids=STATES)
def test_state_and_what_has_been_sent(natives: list[Native], state: str, sent: int):
    transcript = build.transcript(natives)
    assert transcript.state == state
    assert transcript.sent == sent
    assert len(transcript) == len(natives)


@pytest.mark.parametrize(
    ("natives", "count"),
    [
        pytest.param([], 0, id="none"),
        pytest.param([user(), *read("a", "f"), assistant("x"), user()], 2, id="the answers"),
        pytest.param([user(), assistant("x"), assistant("y")], 1, id="messages in a row are one answer"),
        pytest.param([assistant("x"), other(), assistant("y")], 2, id="with something between they are two"),
    ],
)
def test_llm_calls(natives: list[Native], count: int):
    assert build.transcript(natives).llm_calls == count
    grown = Transcript()
    for message in build.messages(natives):
        grown.extend([message])
    assert grown.llm_calls == count


ASKED = {"role": "user", "content": "go"}
THOUGHT = {"type": "reasoning", "id": "r"}
CALLED = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
ANSWERED = {"type": "function_call_output", "call_id": "c", "output": "x"}
SEARCHED = {"type": "web_search_call", "id": "w"}
SAID = {"type": "message", "role": "assistant", "content": "done"}

ITEM_LISTS: dict[str, tuple[list[dict[str, str]], str, int, int]] = {
    # items of the Responses API, the state, what was sent, the LLM calls
    "an answer of several items": ([ASKED, THOUGHT, CALLED, CALLED], "mid_loop", 4, 1),
    "its outputs": ([ASKED, THOUGHT, CALLED, CALLED, ANSWERED, ANSWERED], "mid_loop", 4, 1),
    "the next answer": ([ASKED, CALLED, ANSWERED, THOUGHT, SAID], "mid_loop", 5, 2),
    "the user speaks again": ([ASKED, THOUGHT, SAID, ASKED], "idle", 3, 1),
    "a search that the provider runs": ([ASKED, THOUGHT, SEARCHED, THOUGHT, SAID, ASKED], "idle", 5, 1),
    "a search at the end of an answer": ([ASKED, THOUGHT, SEARCHED], "mid_loop", 3, 1),
    "what is neither said nor done": ([ASKED, SAID, {"type": "compaction"}], "mid_loop", 2, 1),
}


@pytest.mark.parametrize(("items", "state", "sent", "calls"), ITEM_LISTS.values(), ids=ITEM_LISTS)
def test_an_answer_of_several_items_is_one_llm_call(
    items: list[dict[str, str]], state: str, sent: int, calls: int
):
    messages = [OPENAI_RESPONSES.read(item, f"m{at}") for at, item in enumerate(items)]
    transcript = Transcript(messages)
    assert (transcript.state, transcript.sent, transcript.llm_calls) == (state, sent, calls)
    grown = Transcript()
    for message in messages:
        grown.extend([message])
    assert grown.llm_calls == calls


# ---------------------------------------------------------------- values

CONTENTS: dict[str, tuple[tuple[Text | Image, ...], str, bool, bool]] = {
    # content, its text, has text, has an image
    "nothing": ((), "", False, False),
    "text": ((Text("a"),), "a", True, False),
    "an empty text": ((Text(""),), "", False, False),
    "white space": ((Text(" \n"), Text("\t")), " \n\n\t", False, False),
    "an image": ((Image("image/png"),), "", False, True),
    "texts around an image": ((Text("a"), Image("image/png"), Text("b")), "a\nb", True, True),
    "a blank text and an image": ((Text(" "), Image("image/png")), " ", False, True),
    "blank, then text": ((Text(" "), Text("b")), " \nb", True, False),
}


@pytest.mark.parametrize(("content", "text", "has_text", "has_image"), CONTENTS.values(), ids=CONTENTS)
def test_what_a_result_holds(content: tuple[Text | Image, ...], text: str, has_text: bool, has_image: bool):
    one = ToolResult("a", "read", content)
    assert (one.text, one.has_text, one.has_image) == (text, has_text, has_image)


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        pytest.param(Usage(1, 2, 4, 8, 8, 100), 100, id="the provider's total"),
        pytest.param(Usage(1, 2, 4, 8, 8), 15, id="else the four summed; the hour's share is no fifth"),
        pytest.param(Usage(1, 2, 4, 8, total=0), 15, id="a total of zero is none"),
        pytest.param(Usage(), 0, id="nothing"),
    ],
)
def test_context_tokens(usage: Usage, tokens: int):
    assert usage.context_tokens == tokens


# ---------------------------------------------------------------- growth

NATIVES = st.lists(
    st.sampled_from(
        [
            user(),
            assistant("text"),
            assistant(call("a", "read", path="f")),
            assistant(call("b", "read", path="f"), call("c", "write", path="f")),
            result("a"),
            result("b", error=True),
            result("c"),
            result("nobody"),
            shell("ls", "x"),
            other(),
        ]
    ),
    max_size=25,
)


@given(NATIVES, st.lists(st.integers(0, 25), max_size=6))
def test_growing_gives_the_same_as_at_once(natives: list[Native], cuts: list[int]):
    whole = Transcript(build.messages(natives))
    grown = Transcript()
    for start, end in zip([0, *sorted(cuts)], [*sorted(cuts), len(natives)], strict=True):
        grown.extend(whole.messages[start:end])
    assert (grown.messages, grown.turns, grown.exchanges) == (whole.messages, whole.turns, whole.exchanges)
    assert (grown.turn, grown.state, grown.sent, grown.llm_calls) == (
        whole.turn,
        whole.state,
        whole.sent,
        whole.llm_calls,
    )


@given(NATIVES)
def test_each_result_and_each_call_is_in_one_exchange_at_most(natives: list[Native]):
    exchanges = build.transcript(natives).exchanges
    assert len({(one.call_position, one.call_part) for one in exchanges}) == len(exchanges)
    assert len({(one.result_position, one.result_part) for one in exchanges}) == len(exchanges)
    assert all(
        one.call_position < one.result_position and one.call.id == one.result.call_id for one in exchanges
    )
