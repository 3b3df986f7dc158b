"""Every marker leads back to what it stands for."""

from pathlib import Path

import pytest
from tests.build import LONG, bash, flat, image, read, shell, text, turns, used, user
from tests.histories import PiFile, entry_id
from tests.pruner.support import HUGE, MASKING, pruner_of, twice_read

from prunewise import markers, recall
from prunewise.stores.memory import Memory
from prunewise.stores.pi_session import PiSession


def test_a_marker_leads_to_every_part_of_what_it_stands_for(tmp_path: Path):
    file = PiFile(tmp_path / "s.jsonl")
    shot = [text("before"), image(44), text("after")]
    history = flat(
        user(),
        used("c1", "shot", {"n": 1}, *shot),
        used("c2", "shot", {"n": 1}, *shot),
        used("c3", "bash", {"command": "y" * 3_000, "é": "\ud800"}, "it\nfailed", error=True),
        shell("ls", HUGE),
        *turns(7),
    )
    for number, native in enumerate(history):
        file.message(native, entry_id(number))
    session = file.open()
    context = session.context()
    messages, ids = [one.message for one in context], [one.id for one in context]
    done = pruner_of(session).project(messages, ids=ids, window=100, reserve=0)
    references = {one.position: markers.reference_in(one.text) or "" for one in done.edits}
    assert sorted(references) == [2, 5, 7]
    for store in (session, PiSession.open(file.path)):
        parts = recall.recall_parts(store, references[2])
        assert parts == [text("before\n[image: image/png]\nafter"), image(44)]
        purged = recall.recall(store, references[5])
        assert purged.startswith('Input: {"command": "yyy')
        assert purged.endswith("\n\nOutput:\nit\nfailed")
        assert recall.recall(store, references[7] + ":full") == HUGE
        assert recall.recall(store, ids[2]) == recall.recall(store, references[2])


def test_in_memory_too_recall_gives_the_images():
    history = flat(
        user(), used("c1", "shot", {}, text("a"), image(44)), used("c2", "shot", {}, image()), *turns(2)
    )
    pruner = pruner_of()
    [one] = pruner.project(history).edits
    parts = recall.recall_parts(pruner.store, markers.reference_in(one.text) or "")
    assert parts == [text("a\n[image: image/png]"), image(44)]


@pytest.mark.parametrize("depth", [1, 3])
def test_a_recalled_output_that_is_pruned_again_leads_to_the_original(tmp_path: Path, depth: int):
    file = PiFile(tmp_path / "s.jsonl")
    history = flat(user(), read("c0", "a.py", HUGE), user())
    for level in range(depth):
        ref = entry_id(3 + 2 * level if level else 2)
        history += used(f"r{level}", "recall", {"ref": ref}, HUGE)
    history += turns(2)
    for number, native in enumerate(history):
        file.message(native, entry_id(number))
    session = file.open()
    context = session.context()
    data = {**MASKING, "pruning": {"minResultTokens": 100}}
    done = pruner_of(session, data).project(
        [one.message for one in context], ids=[one.id for one in context], window=100, reserve=0
    )
    references = {markers.reference_in(one.text) for one in done.edits}
    assert len(done.edits) == depth + 1
    assert len(references) == 1
    assert recall.recall(session, f"{references.pop()}:full") == HUGE


def test_a_mask_leads_to_what_it_stands_for_after_the_message_was_edited():
    """The host put another output in the place of one: the marker that goes out now stands for that."""
    pruner = pruner_of(data=MASKING)
    history = flat(user(), bash("c1", "make", HUGE), user())
    pruner.project(history, window=100, reserve=0)
    other = HUGE.replace("large", "fresh")
    changed = flat(user(), bash("c1", "make", other), user())
    [one] = pruner.project(changed, window=100, reserve=0).edits
    assert pruner.recall(f"{markers.reference_in(one.text)}:full") == other


def test_a_decision_of_before_leads_to_what_it_stands_for_after_the_message_was_edited():
    pruner = pruner_of()
    pruner.project(twice_read())
    changed = flat(user(), read("c1", "a.py", HUGE), user(), read("c2", "a.py"), user())
    [one] = pruner.project(changed).edits
    assert pruner.recall(f"{markers.reference_in(one.text)}:full") == HUGE


def test_in_another_process_the_markers_of_before_lead_somewhere():
    """Only the ledger was kept: the outputs come in with the messages, before their markers go out."""
    store = Memory("c")
    history = flat(user(), used("c1", "bash", {"command": "x" * 2_000}, LONG, error=True), *turns(7))
    pruner_of(store).project(history)
    again = pruner_of(Memory("c", store.ledger()))
    [one] = again.project(history).edits
    assert again.recall(markers.reference_in(one.text) or "").startswith('Input: {"command": "xxx')


def test_the_output_of_another_tool_named_recall_is_its_own():
    history = flat(
        user(),
        bash("c1", "make", HUGE),
        used("c2", "recall", {"ref": "c1"}, "other " + HUGE),
        used("c3", "recall", {"ref": "c1"}, "other " + HUGE),
        *turns(2),
    )
    pruner = pruner_of()
    [one] = pruner.project(history).edits
    assert markers.reference_in(one.text) == "c2"
    assert pruner.recall("c2:full") == "other " + HUGE


def test_what_a_recall_showed_does_not_take_the_place_of_the_original():
    history = flat(user(), bash("c1", "make", HUGE), user(), used("c2", "recall", {"ref": "c1"}, "half"))
    pruner = pruner_of(data=MASKING)
    pruner.project(history[:4], window=100, reserve=0)
    longer = flat(history[:4], used("c2", "recall", {"ref": "c1"}, HUGE[:8_000]), *turns(2))
    done = pruner.project(longer, window=100, reserve=0)
    assert [markers.reference_in(one.text) for one in done.edits] == ["c1", "c1"]
    assert pruner.recall("c1:full") == HUGE
