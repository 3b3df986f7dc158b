import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.formats.wire import json_values

from prunewise import InputError
from prunewise.formats import documents
from prunewise.formats.reading import Json
from prunewise.transcript import Message

TEXT = b'\xef\xbb\xbf {"a": {"b": [ {"c": "x:{", "d": []}, {"e": 1} ]}, "f": "a\\"b", "g": nul'


def test_outlines_the_keys():
    assert documents.outline(TEXT) == {
        *(("a",), ("a", "b"), ("a", "b", "[]"), ("a", "b", "[]", "c"), ("a", "b", "[]", "d")),
        *(("a", "b", "[]", "e"), ("f",), ("g",)),
    }


@pytest.mark.parametrize(
    ("head", "keys"),
    [
        (b"", set()),
        (b"plain text: no", set()),
        (b"[]", {("[]",)}),
        (b'[{"a": 1', {("[]",), ("[]", "a")}),
        (b'{"a": 1}\n{"b": 2}\n', {("a",)}),
        (b'}{"a": 1}', set()),
        (b'{"a": "never closed', {("a",)}),
    ],
)
def test_outlines_what_there_is(head: bytes, keys: set[tuple[str, ...]]):
    assert documents.outline(head) == keys


@given(st.binary() | json_values.map(lambda value: json.dumps(value).encode()), st.integers(0, 60))
def test_outlining_never_raises(data: bytes, length: int):
    assert documents.outline(data[:length]) is not None


@given(st.dictionaries(st.text(), st.integers()))
def test_an_outline_has_every_key(document: dict[str, Json]):
    data = json.dumps(document).encode()
    assert len(documents.outline(data)) == len(document)


@pytest.mark.parametrize("data", [b"", b"{", b"\xff", b"[" * 100_000])
def test_what_is_no_document_is_said_in_one_line(data: bytes):
    with pytest.raises(InputError) as caught:
        documents.decode("s.json", data)
    assert str(caught.value).startswith("s.json: no JSON document: ")
    assert "\n" not in str(caught.value)


def test_a_byte_order_mark_is_passed_over():
    assert documents.decode("s.json", b"\xef\xbb\xbf{}") == {}


def message(name: str) -> Message:
    return Message("user", name, ())


def test_epochs_without_a_call_are_left_out():
    epochs = documents.Epochs()
    epochs.add([message("a")])
    epochs.end("rewind", [message("k")])
    epochs.add([message("b")])
    epochs.call(model="m")
    epochs.end("compaction")
    epochs.add([message("c")])
    (epoch,) = epochs.finished()
    assert [one.id for one in epoch.messages] == ["k", "b"]
    assert (epoch.calls[0].position, epoch.calls[0].model, epoch.ended_by) == (2, "m", "compaction")


def test_messages_that_were_never_sent_are_an_epoch_where_there_is_no_other():
    epochs = documents.Epochs()
    assert epochs.finished() == ()
    epochs.add([message("a")])
    (epoch,) = epochs.finished()
    assert epoch.calls == ()
