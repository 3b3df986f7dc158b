"""Estimators: UTF-16 units over four, each part rounded up by itself or each message as a whole."""

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import build

from prunewise.formats.pi import PI as FORMAT
from prunewise.tokens import DOCUMENTED, PI, text_tokens, utf16_length
from prunewise.transcript import Image, Message, Opaque, Part, Shell, Text, Thinking, ToolCall, ToolResult

ANY_TEXT = st.text(st.characters(), max_size=40)


@pytest.mark.parametrize(
    ("text", "length"),
    [
        pytest.param("", 0, id="nothing"),
        pytest.param("abc", 3, id="ascii"),
        pytest.param("é日", 2, id="basic plane: one unit each"),
        pytest.param("🙂", 2, id="beyond the basic plane: a surrogate pair"),
        pytest.param("\ud83d", 1, id="a lone surrogate: one unit"),
        pytest.param("a\ud83d🙂", 4, id="a lone surrogate beside a pair"),
        pytest.param("\u2028\x00", 2, id="separators and NUL"),
    ],
)
def test_length_in_utf16_units(text: str, length: int):
    assert utf16_length(text) == length


@pytest.mark.parametrize(
    ("characters", "tokens"), [(0, 0), (1, 1), (3, 1), (4, 1), (5, 2), (8, 2), (9, 3)], ids=str
)
def test_a_quarter_rounded_up(characters: int, tokens: int):
    assert text_tokens("x" * characters) == tokens
    assert text_tokens("🙂" * characters) == -(-2 * characters // 4)


@dataclass
class Row:
    documented: int
    pi: int
    message: Message


def one(role: str, *parts: Part) -> Message:
    return Message(role, "m", parts)  # type: ignore[arg-type]


FIVE = "x" * 5
MESSAGES = {
    "texts are rounded up one by one, or as a whole": Row(4, 3, one("user", Text(FIVE), Text(FIVE))),
    "thinking counts as text, its signature does not": Row(2, 2, one("assistant", Thinking(FIVE, "s" * 400))),
    "a call counts its arguments; pi also its name": Row(
        3, 5, one("assistant", ToolCall("c", "read" * 2, {"a": 12}, '{"a":12345}'))
    ),
    "an image": Row(1200, 1200, one("user", Image("image/png", 9))),
    "an image whatever its size": Row(1200, 1200, one("user", Image("image/png", 9_000_000))),
    "a result, part by part": Row(
        1204, 1203, one("tool", ToolResult("c", "read", (Text(FIVE), Image("image/png"), Text(FIVE))))
    ),
    "a result of one text": Row(2, 2, one("tool", ToolResult("c", "read", (Text(FIVE),)))),
    "a result without content": Row(0, 0, one("tool", ToolResult("c", "read", ()))),
    "several results in one message": Row(
        4, 3, one("user", ToolResult("c", "a", (Text(FIVE),)), ToolResult("d", "a", (Text(FIVE),)))
    ),
    "an opaque part counts nothing": Row(0, 0, one("user", Opaque(400))),
    "no parts": Row(0, 0, one("user")),
    "system counts for pi alone": Row(0, 2, one("system", Text(FIVE))),
    "a note or summary counts for pi alone": Row(0, 2, one("other", Text(FIVE))),
    "a shell command counts for pi alone, with its output": Row(0, 3, one("shell", Shell(FIVE, FIVE))),
    "a shell command kept from the model counts nothing": Row(
        0, 0, one("shell", Shell(FIVE, FIVE, sent=False))
    ),
    "a shell part in a counted role": Row(0, 3, one("user", Shell(FIVE, FIVE))),
}


@pytest.mark.parametrize("row", MESSAGES.values(), ids=MESSAGES)
def test_messages(row: Row):
    assert DOCUMENTED.message(row.message) == row.documented
    assert PI.message(row.message) == row.pi


def test_arguments_count_as_compact_json_with_characters_as_they_are():
    arguments = {"path": "ü🙂", "n": 1.0, "list": [True, None]}
    message = FORMAT.read(build.assistant(build.call("c", "read", arguments)), "m")
    written = '{"list":[true,null],"n":1,"path":"ü🙂"}'
    assert DOCUMENTED.message(message) == text_tokens(written)


def test_a_lone_surrogate_in_arguments_counts_as_its_escape():
    message = FORMAT.read(build.assistant(build.call("c", "read", path="\ud83d")), "m")
    assert DOCUMENTED.message(message) == text_tokens('{"path":"\\ud83d"}') == 5


@pytest.mark.parametrize("estimator", [DOCUMENTED, PI], ids=["documented", "pi"])
def test_an_image_in_content_is_what_the_estimator_says(estimator: object):
    assert estimator.content(ToolResult("c", "read", (Image("image/png"),))) == 1200  # type: ignore[attr-defined]


PARTS = st.one_of(
    st.builds(Text, ANY_TEXT),
    st.builds(Thinking, ANY_TEXT),
    st.just(Image("image/png")),
    st.builds(lambda text: ToolCall("c", "read", {}, text), ANY_TEXT),
    st.builds(lambda texts: ToolResult("c", "read", tuple(map(Text, texts))), st.lists(ANY_TEXT, max_size=3)),
    st.builds(Shell, ANY_TEXT, ANY_TEXT),
    st.builds(Opaque, st.integers(0, 100)),
)


@given(ANY_TEXT, ANY_TEXT)
def test_lengths_add_up(one: str, other: str):
    # A high surrogate that meets a low one becomes a pair of the same two units.
    assert utf16_length(one + other) == utf16_length(one) + utf16_length(other)


@given(st.lists(PARTS, max_size=5), st.lists(PARTS, max_size=5))
def test_documented_is_the_sum_of_its_parts(some: list[Part], more: list[Part]):
    both = DOCUMENTED.message(one("assistant", *some, *more))
    assert both == DOCUMENTED.message(one("assistant", *some)) + DOCUMENTED.message(one("assistant", *more))


@given(st.lists(PARTS, max_size=5), st.lists(PARTS, max_size=5))
def test_pi_rounds_once_a_message(some: list[Part], more: list[Part]):
    apart = PI.message(one("assistant", *some)) + PI.message(one("assistant", *more))
    assert 0 <= apart - PI.message(one("assistant", *some, *more)) <= 1


@given(st.lists(st.one_of(st.builds(Text, ANY_TEXT), st.just(Image("image/png"))), max_size=6))
def test_the_content_of_a_result_counts_as_its_message_does(content: list[Text | Image]):
    result = ToolResult("c", "read", tuple(content))
    assert DOCUMENTED.content(result) == DOCUMENTED.message(one("tool", result))
