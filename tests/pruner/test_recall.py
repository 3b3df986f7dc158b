"""Every marker leads back to what it stands for."""

import contextlib
from pathlib import Path
from typing import Any

import pytest
from tests.build import LONG, assistant, bash, call, flat, image, read, result, shell, text, turns, used, user
from tests.histories import PiFile, entry_id
from tests.pruner.support import HUGE, MASKING, pruner_of, twice_read

from prunewise import Policy, Pruner, markers, recall
from prunewise.errors import RefusedError
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
        assistant("on"),
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


def test_of_two_calls_with_one_id_the_input_of_the_answered_one_comes_back(tmp_path: Path):
    file = PiFile(tmp_path / "s.jsonl")
    first, last = {"command": "first"}, {"command": "last " * 900}
    calls = assistant(call("c1", "bash", first), call("c1", "bash", last))
    for number, native in enumerate(flat(user(), calls, result("c1", "no", error=True), *turns(7))):
        file.message(native, entry_id(number))
    session = file.open()
    context = session.context()
    messages, ids = [one.message for one in context], [one.id for one in context]
    [edit] = pruner_of(session).project(messages, ids=ids).edits
    recalled = recall.recall(PiSession.open(file.path), markers.reference_in(edit.text) or "")
    assert recalled == f'Input: {{"command": "{"last " * 900}"}}\n\nOutput:\nno'


def test_in_memory_too_recall_gives_the_images():
    history = flat(
        user(), used("c1", "shot", {}, text("a"), image(44)), used("c2", "shot", {}, image()), *turns(2)
    )
    pruner = pruner_of()
    [one] = pruner.project(history).edits
    parts = recall.recall_parts(pruner.store, markers.reference_in(one.text) or "")
    assert parts == [text("a\n[image: image/png]"), image(44)]


@pytest.mark.parametrize("depth", [1, 3])
def test_a_recalled_output_that_is_pruned_again_leads_to_what_was_recalled(tmp_path: Path, depth: int):
    file = PiFile(tmp_path / "s.jsonl")
    history = flat(user(), read("c0", "a.py", HUGE), user())
    for level in range(depth):
        ref = entry_id(3 + 2 * level if level else 2)
        history += used(f"r{level}", "recall", {"ref": ref}, f"{level}{HUGE}")
    history += [assistant("on"), *turns(2)]
    for number, native in enumerate(history):
        file.message(native, entry_id(number))
    session = file.open()
    context = session.context()
    data = {**MASKING, "pruning": {"minResultTokens": 100}}
    done = pruner_of(session, data).project(
        [one.message for one in context], ids=[one.id for one in context], window=100, reserve=0
    )
    assert len(done.edits) == depth + 1
    for edit in done.edits:
        [block] = history[edit.position]["content"]
        assert recall.recall(session, f"{markers.reference_in(edit.text)}:full") == block["text"]


def test_a_mask_leads_to_what_it_stands_for_after_the_message_was_edited():
    """The host put another output in the place of one: the marker that goes out now stands for that."""
    pruner = pruner_of(data=MASKING)
    history = flat(user(), bash("c1", "make", HUGE), assistant("on"), user())
    pruner.project(history, window=100, reserve=0)
    other = HUGE.replace("large", "fresh")
    changed = flat(user(), bash("c1", "make", other), assistant("on"), user())
    [one] = pruner.project(changed, window=100, reserve=0).edits
    assert pruner.recall(f"{markers.reference_in(one.text)}:full") == other


def test_a_decision_does_not_reach_the_output_that_came_in_place_of_its_own():
    pruner = pruner_of()
    pruner.project(twice_read())
    changed = flat(user(), read("c1", "a.py", HUGE), user(), read("c2", "a.py"), user())
    assert pruner.project(changed).request is changed
    assert [one.position for one in pruner.project(twice_read()).edits] == [2]


def test_where_the_host_names_messages_a_decision_stands_for_what_the_message_holds_now():
    pruner, ids = pruner_of(), [f"e{number}" for number in range(len(twice_read()))]
    pruner.project(twice_read(), ids=ids)
    changed = flat(user(), read("c1", "a.py", HUGE), user(), read("c2", "a.py"), user())
    [one] = pruner.project(changed, ids=ids[: len(changed)]).edits
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
    history = flat(user(), bash("c1", "make", HUGE), assistant("on"), user())
    pruner = pruner_of(data=MASKING)
    pruner.project(history, window=100, reserve=0)
    recalled = used("c2", "recall", {"ref": "c1"}, HUGE[:8_000])
    longer = flat(history, recalled, assistant("on"), *turns(2))
    done = pruner.project(longer, window=100, reserve=0)
    assert [markers.reference_in(one.text) for one in done.edits] == ["c1", "c2"]
    assert pruner.recall("c1:full") == HUGE
    assert pruner.recall("c2:full") == HUGE[:8_000]


# ---- several results in one message, and ids that come again

Parallel = list[tuple[str, str, dict[str, Any], str]]


def anthropic(*rounds: Parallel) -> list[Any]:
    made: list[Any] = [{"role": "user", "content": "go"}]
    for calls in rounds:
        uses = [{"type": "tool_use", "id": at, "name": name, "input": given} for at, name, given, _ in calls]
        results = [{"type": "tool_result", "tool_use_id": at, "content": held} for at, _, _, held in calls]
        made += [{"role": "assistant", "content": uses}, {"role": "user", "content": results}]
        made.append({"role": "user", "content": "on"})
    return made


ONE, TWO, THREE = (f"{name}, a line of it\n" * 900 for name in ("one", "two", "three"))


def recalling(call_id: str, ref: Any, held: str) -> tuple[str, str, dict[str, Any], str]:
    return (call_id, "recall", {"ref": ref}, held)


def run(call_id: str, held: str) -> tuple[str, str, dict[str, Any], str]:
    return (call_id, "bash", {"command": call_id}, held)


ROUNDS: dict[str, list[Parallel]] = {
    "beside another output": [[run("a", ONE)], [recalling("r", "a", ONE), run("b", TWO)], [run("c", THREE)]],
    "another recalled from that message": [
        [run("a", ONE)],
        [recalling("r", "a", ONE), run("b", TWO)],
        [recalling("s", "b:full", TWO)],
    ],
    "behind it": [[run("a", ONE)], [run("b", TWO), recalling("r", "a", ONE)], [recalling("s", "b", TWO)]],
    "a recall that failed beside": [
        [run("a", ONE), recalling("r", "gone", "no output was kept")],
        [recalling("s", "a:full", ONE)],
    ],
    "two recalls of one": [[run("a", ONE)], [recalling("r", "a", ONE), recalling("s", "a:full", ONE)]],
    "a recall of a recall": [[run("a", ONE)], [recalling("r", "a", ONE)], [recalling("s", "r", ONE)]],
    "two that were recalled at once": [
        [run("a", ONE), run("b", TWO)],
        [recalling("r", "b", TWO), recalling("s", "a", ONE)],
        [recalling("t", "r", TWO), run("c", THREE)],
    ],
    "of what is still in view": [[run("a", ONE)], [recalling("r", "b", TWO), run("b", TWO)]],
    "a reference that is no text": [[run("a", ONE)], [recalling("r", 5, ONE), run("b", TWO)]],
}


@pytest.mark.parametrize("rounds", ROUNDS.values(), ids=ROUNDS)
@pytest.mark.parametrize("how", ["masked", "by hand"])
def test_each_of_several_results_in_a_message_comes_back_as_it_was(rounds: list[Parallel], how: str):
    pruner = Pruner("anthropic", Policy(MASKING if how == "masked" else None))
    if how == "masked":
        rounds = [*rounds, [run("last", "no output")]]  # what is masked has been answered
    for end in range(1, len(rounds) + 1):
        history = anthropic(*rounds[:end])
        room = {"window": 1_000, "reserve": 1} if how == "masked" else {}
        pruner.project(history, now=1.0, **room)
        for call_id, _, _, _ in rounds[end - 1] if how == "by hand" else ():
            with contextlib.suppress(RefusedError):
                pruner.prune_call(call_id)
        done = pruner.project(history, now=1.0, **room)
        outputs = {call[0]: call[3] for calls in rounds[:end] for call in calls}
        for edit in done.edits:
            call_id = history[edit.position]["content"][edit.part]["tool_use_id"]
            assert pruner.recall(f"{markers.reference_in(edit.text)}:full") == outputs[call_id]
        answered = len(history) - (3 if how == "masked" else 0)
        assert {edit.position for edit in done.edits} == set(range(2, answered, 3))


@pytest.mark.parametrize("format", ["pi", "anthropic"])
@pytest.mark.parametrize("dropped", [3, 6])
def test_a_marker_of_before_a_compaction_leads_to_no_other_output(format: str, dropped: int):
    """The server counts its calls anew, so their ids come again; shell outputs have none at all."""
    texts = [f"{name} {HUGE}" for name in ("one", "two", "three", "four")]
    if format == "anthropic":
        history = anthropic(*[[run("call_0", held)] for held in texts])
    else:
        history = flat(user(), *[flat(shell("ls", held), assistant("on"), user()) for held in texts])
    pruner = Pruner(format, Policy(MASKING))
    known: dict[str, str] = {}
    kept = history[dropped:]
    for messages in (history[: dropped + 1], history, kept, [history[0], *kept]):
        done = pruner.project(messages, now=1.0, window=100, reserve=0)
        for edit in done.edits:
            native = messages[edit.position]
            held = native["output"] if format == "pi" else native["content"][edit.part]["content"]
            reference = markers.reference_in(edit.text) or ""
            assert known.setdefault(reference, held) == held
        for reference, held in known.items():
            assert pruner.recall(f"{reference}:full") == held
    assert len(known) > 1
