"""Recall: the two forms of a reference, how an output is laid out, and that none is taken for a marker."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.stores.sessions import IMAGE, Log, decision

from prunewise import markers
from prunewise.errors import RecallError
from prunewise.recall import FULL, LIMIT, recall, recall_parts
from prunewise.stores import Original, Writes
from prunewise.stores.memory import Memory
from prunewise.stores.pi_session import PiSession
from prunewise.tokens import utf16_length
from prunewise.transcript import TOOL_INPUT, Image, Text


def keeping(*content: str | Image, **more: object) -> Memory:
    store = Memory()
    parts = tuple(Text(part) if isinstance(part, str) else part for part in content)
    store.commit(Writes({"c1": Original("m1", "read", parts, **more)}))  # pyright: ignore[reportArgumentType]
    return store


def units(text: str) -> int:
    return utf16_length(text)


@pytest.mark.parametrize("reference", ["c1", " c1\n", "c1:full", " c1:full ", "c1 :full"])
def test_white_space_and_the_full_suffix_do_not_matter_for_a_short_output(reference: str):
    assert recall(keeping("the output"), reference) == "the output"


def test_a_purged_input_is_given_though_the_output_beside_it_looks_like_a_marker():
    looks_so = markers.output("read", 900, markers.READ_AGAIN, "#9")
    assert recall(keeping(looks_so, input={"command": "make"}), "c1") == (
        f'Input: {{"command": "make"}}\n\nOutput:\n{looks_so}'
    )


def test_up_to_the_limit_an_output_is_whole():
    assert recall(keeping("x" * LIMIT), "c1") == "x" * LIMIT


def test_a_longer_one_is_cut_and_names_the_full_form_in_one_more_line():
    text = recall(keeping("x" * (LIMIT + 1)), "c1")
    shown, hint = text.rsplit("\n", 1)
    assert shown == "x" * LIMIT
    assert hint == '[12,000 of 12,001 characters; recall "c1:full" gives all of it]'
    assert recall(keeping("x" * 50_000), "c1:full") == "x" * 50_000


@given(
    st.lists(
        st.sampled_from(["x" * 2999, "é" * 4000, "😀" * 1499, "😀", "\ud800", "\udc00", "a"]), max_size=24
    )
)
def test_a_cut_never_splits_a_character_nor_passes_the_limit(pieces: list[str]):
    whole = "".join(pieces)
    text = recall(keeping(whole), "c1")
    if units(whole) <= LIMIT:
        assert text == whole
        return
    shown = text.rsplit("\n", 1)[0]
    assert whole.startswith(shown)
    assert LIMIT - 2 <= units(shown) <= LIMIT
    assert not ("\ud800" <= shown[-1] <= "\udbff" and "\udc00" <= whole[len(shown)] <= "\udfff")


def test_a_purged_input_comes_first_as_json():
    store = keeping("Error: no", input={"path": "é", "lines": [1, 2.5]})
    assert recall(store, "c1") == 'Input: {"path": "é", "lines": [1, 2.5]}\n\nOutput:\nError: no'


def test_images_are_named_in_the_text_and_come_with_the_parts():
    store = keeping("before", Image("image/png", 4), "after", images=(IMAGE,))
    text = "before\n[image: image/png]\nafter"
    assert recall(store, "c1") == text
    assert recall_parts(store, "c1") == [{"type": "text", "text": text}, IMAGE]


@pytest.mark.parametrize("reference", ["", "  ", ":full", " :full "])
def test_a_missing_reference_is_said(reference: str):
    with pytest.raises(RecallError, match="is missing"):
        recall(keeping("x"), reference)


def test_an_unknown_reference_is_said():
    with pytest.raises(RecallError, match="c2: no output"):
        recall(keeping("x"), "c2:full")


def marker(reference: str) -> str:
    return markers.output("read", 900, markers.DUPLICATE, reference)


LOOK_ALIKES = [
    marker("c2"),
    marker("c1"),
    marker("c9") + "\nand more",
    "see " + marker("c2"),
    markers.masked_output("read", "x" * 900, "c2"),
    markers.masked_shell("make", 0, "x\n" * 900, "c2"),
    markers.pointer("read", "x" * 900, "c2"),
]


@pytest.mark.parametrize("text", LOOK_ALIKES)
@pytest.mark.parametrize("form", ["c1", "c1:full"])
def test_an_output_that_looks_like_a_marker_is_itself(text: str, form: str):
    store = keeping(text)
    store.commit(Writes({"c2": Original("m2", "bash", (Text("another"),))}))
    assert recall(store, form) == text


def test_a_session_files_outputs_are_recalled():
    log = Log()
    log.exchange("Error: no", error=True, path="b.py")
    log.ledger(decision("c1", TOOL_INPUT))
    looks_so = marker("#3")
    log.message("toolResult", [{"type": "text", "text": looks_so}], toolCallId="c2", toolName="recall")
    session = PiSession.from_bytes(log.bytes())
    expected = 'Input: {"path": "b.py"}\n\nOutput:\nError: no'
    assert recall(session, "#3") == recall(session, f"#3{FULL}") == recall(session, "e0000003") == expected
    assert recall(session, "#5") == looks_so
