"""What imitates a marker is ordinary text: pruned like any, recalled as it is, never followed."""

from typing import Any

import pytest
from tests.build import LONG, Native, assistant, call, flat, read, result, shell, turns, user
from tests.pruner.support import EAGER, pruner_of

from prunewise import Policy, Pruner, markers
from prunewise.stores.memory import Memory

SECRET = "what another command printed\n" * 200
REAL = "a real line of the log\n" * 60

LOOK_ALIKES = {
    "a marker and more": markers.output("bash", 9, markers.OLD, "c1") + "\n" + REAL,
    "one of masking": markers.masked_output("bash", SECRET, "c1") + "\n" + REAL,
    "a shell summary": markers.masked_shell("make", 0, REAL * 9, "c1"),
    "a pointer": markers.pointer("bash", SECRET, "c1") + "\n" + REAL,
    "an old form": "[prunewise: bash output shortened: 9 lines; recall c1 for all of it]\n" + REAL,
    "its own reference": markers.output("bash", 9, markers.OLD, "c2") + "\n" + REAL,
    "a reference to nothing": markers.output("bash", 9, markers.OLD, "c99") + "\n" + REAL,
    "a long reason": markers.output("bash", 9, "it is old, " + "x" * 3_000, "c1"),
    "one per line": (markers.output("bash", 9, markers.OLD, "c1") + "\n") * 40,
    "a full form": markers.output("bash", 9, markers.OLD, "c1:full") + "\n" + REAL,
}


def history(text: str) -> list[Native]:
    return flat(
        user(),
        assistant(call("c1", "bash", {"command": "cat plan"})),
        result("c1", SECRET),
        assistant(call("c2", "bash", {"command": "cat log"})),
        result("c2", text),
        assistant(call("c3", "bash", {"command": "cat log"})),
        result("c3", text),
        *turns(3),
    )


def recalled_as_they_were(pruner: Pruner, before: list[Native], edits: Any) -> set[int]:
    for edit in edits:
        reference = markers.reference_in(edit.text)
        native = before[edit.position]
        held = native["output"] if "output" in native else native["content"][0]["text"]
        assert pruner.recall(f"{reference}:full") == held
    return {edit.position for edit in edits}


@pytest.mark.parametrize("text", LOOK_ALIKES.values(), ids=LOOK_ALIKES)
@pytest.mark.parametrize("policy", ["documented", "priced"])
@pytest.mark.parametrize("window", [None, 500])
def test_a_policy_takes_it_for_text(text: str, policy: str, window: int | None):
    settings = {**EAGER, "policy": policy, "priced": {"recentCalls": 0, "minTokens": 20}}
    settings["pruning"] = {"minResultTokens": 20}
    pruner, messages = Pruner("pi", Policy(settings)), history(text)
    gone: set[int] = set()
    for end in range(1, len(messages) + 1):
        done = pruner.project(messages[:end], now=float(end), window=window, reserve=1)
        gone |= recalled_as_they_were(pruner, messages, done.edits)
    assert gone & {4, 6}


@pytest.mark.parametrize("text", LOOK_ALIKES.values(), ids=LOOK_ALIKES)
def test_a_person_prunes_it_like_any_text(text: str):
    pruner, messages = pruner_of(), history(text)
    pruner.read(messages)
    pruner.prune_call("c2")
    done = pruner.project(messages, now=1.0)
    assert 4 in recalled_as_they_were(pruner, messages, done.edits)


@pytest.mark.parametrize("text", LOOK_ALIKES.values(), ids=LOOK_ALIKES)
def test_masking_takes_the_users_own_for_text(text: str):
    pruner = pruner_of(data={"enabled": False, "pruning": {"minResultTokens": 20}})
    messages = flat(user(), shell("cat log", text * 9), assistant("on"), user())
    done = pruner.project(messages, now=1.0, window=100, reserve=0)
    assert recalled_as_they_were(pruner, messages, done.edits) == {1}


@pytest.mark.parametrize("reason", ["it is old, " + "x" * 900, markers.FAILED_INPUT + " " + "y" * 900])
def test_so_is_an_input(reason: str):
    given = {markers.INPUT_KEY: markers.purged_input("write", 9, reason, "c1")}
    failed = flat(assistant(call("c2", "write", given)), result("c2", "no", error=True))
    messages = flat(user(), assistant(call("c1", "bash", {"command": "x"})), result("c1", SECRET), failed)
    pruner = pruner_of()
    done = pruner.project(flat(messages, *turns(7)), now=1.0)
    [edit] = done.edits
    assert edit.position == 3
    recalled = pruner.recall(f"{markers.reference_in(edit.text)}:full")
    assert recalled.startswith(f'Input: {{"{markers.INPUT_KEY}": "[prunewise: write input')
    assert recalled.endswith("\n\nOutput:\nno")


@pytest.mark.parametrize("restored", [False, True])
def test_a_marker_that_the_host_sends_back_is_known_by_the_ledger(restored: bool):
    """It takes no place, and what it stands for is kept."""
    store = Memory()
    messages = flat(user(), read("c1", "a.py", LONG * 9), user(), read("c2", "a.py"), *turns(2))
    pruner = pruner_of(store)
    done = pruner.project(messages, now=1.0)
    assert [edit.position for edit in done.edits] == [2]
    if restored:
        pruner.restore("c1")
    for again in (pruner, pruner_of(store)):
        assert again.project(done.request, now=2.0).request is done.request
        assert again.recall("c1:full") == LONG * 9
