import pytest

from prunewise import InputError, formats
from prunewise.formats import reading
from prunewise.transcript import Image

MESSAGE = {"role": "tool", "content": "a"}


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        (reading.Linked(MESSAGE, {0: "c"}), reading.Linked(dict(MESSAGE), {0: "c"}), True),
        (reading.Linked(MESSAGE, {0: "c"}), reading.Linked(MESSAGE, {0: "d"}), False),
        (reading.Linked(MESSAGE, {0: "c"}), reading.Linked({}, {0: "c"}), False),
        (reading.Linked(MESSAGE, {0: "c"}), MESSAGE, False),
    ],
)
def test_linked_messages_are_equal_where_their_ids_are(one: object, other: object, equal: bool):
    assert (one == other) is equal


def test_a_linked_message_reads_like_the_bare_one():
    linked = reading.Linked(MESSAGE, {0: "c"})
    assert dict(linked) == MESSAGE
    assert len(linked) == 2
    assert reading.unlinked(linked) == (MESSAGE, {0: "c"})
    assert reading.unlinked(MESSAGE) == (MESSAGE, {})


@pytest.mark.parametrize(
    ("value", "expected"), [(3, 3), (-3, 0), (2.0, 2), (True, 0), ("3", 0), (float("nan"), 0)]
)
def test_counts(value: object, expected: int):
    assert reading.count(value) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [('{"a":1}', {"a": 1}), ({"a": 1}, {"a": 1}), ("[1]", None), ("{", None), ("\ud800", None), (None, None)],
)
def test_decodes_objects_alone(text: object, expected: object):
    assert reading.decoded(text) == expected


def test_decoding_what_is_nested_too_deep_gives_nothing():
    assert reading.decoded('{"a":' * 100_000) is None


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("data:image/png;base64,AAAA", Image("image/png", 4)),
        ("https://example.org/a.png", Image("")),
        (None, Image("")),
    ],
)
def test_images_by_address(url: object, expected: Image):
    assert reading.image_from_url(url) == expected


def test_a_format_that_is_not_known():
    with pytest.raises(
        InputError, match="known formats: pi, anthropic, openai-chat, openai-responses, gemini"
    ):
        formats.named("telepathy")
