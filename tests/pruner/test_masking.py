"""What is masked, and how masking and the strategies get along."""

import pytest
from tests.build import assistant, bash, call, flat, image, read, result, shell, text, turns, used, user
from tests.pruner.support import EAGER, HUGE, MASKING, names, placed, pruner_of

from prunewise.stores.memory import Memory
from prunewise.transcript import SHELL_OUTPUT

# ---- two levels: what is masked


def test_only_what_is_larger_than_the_least_size_and_before_the_current_turn_is_masked():
    rows = {"c1": 4_000, "c2": 4_001, "c3": 4_001}
    history = flat(
        user(),
        bash("c1", "one", "x" * rows["c1"]),
        bash("c2", "two", "y" * rows["c2"]),
        user(),
        bash("c3", "three", "z" * rows["c3"]),
        assistant("done"),
    )
    done = pruner_of(data=MASKING).project(history, window=100, reserve=0)
    assert list(placed(done)) == [4]
    open_turn = {**MASKING, "pruning": {"protectCurrentTurn": False}}
    assert list(placed(pruner_of(data=open_turn).project(history, window=100, reserve=0))) == [4, 7]


def test_masking_keeps_images_and_they_do_not_count():
    shots = result("c1", image(90_000), text(HUGE), image(4), name="shot")
    history = flat(user(), assistant(call("c1", "shot")), shots, assistant("done"), user())
    done = pruner_of(data=MASKING).project(history, window=100, reserve=0)
    assert done.request[2]["content"][1:] == [shots["content"][0], shots["content"][2]]
    only = flat(
        user(), assistant(call("c1", "shot")), result("c1", image(90_000), "small"), assistant("done"), user()
    )
    assert pruner_of(data=MASKING).project(only, window=100, reserve=0).masked == 0


def test_a_shell_command_is_masked_and_one_kept_from_the_model_is_not():
    history = flat(
        user(),
        shell("ls", HUGE, code=3),
        shell("pwd", HUGE, excludeFromContext=True),
        assistant("done"),
        user(),
    )
    done = pruner_of(data=MASKING).project(history, window=100, reserve=0)
    [one] = done.edits
    assert (one.position, one.kind) == (1, SHELL_OUTPUT)
    assert "$ ls" in one.text
    assert "exit code 3" in one.text
    assert {**done.request[1], "output": HUGE} == history[1]


# ---- both documents together


def test_strategies_come_first_and_masking_takes_what_remains():
    history = flat(
        user(),
        read("c1", "a.py", HUGE),
        user(),
        read("c2", "a.py", HUGE),
        assistant("done"),
        user(),
        *turns(2),
    )
    done = pruner_of().project(history, window=100, reserve=0)
    assert [(one.position, one.keep_images) for one in done.edits] == [(2, False), (5, True)]
    assert done.masked == 1
    assert names(done) == ["dedupe:tool_result_content:c1"]


def test_what_is_masked_is_not_proposed_and_stays_as_it_was_sent():
    pruner = pruner_of(data={**EAGER, "protections": {"recentTurns": 2}})
    history = flat(
        user(), read("c1", "a.py", HUGE), user(), read("c2", "a.py", HUGE), assistant("done"), user()
    )
    masked = placed(pruner.project(history, window=100, reserve=0))
    assert sorted(masked) == [2, 5]
    longer = flat(history, *turns(5))
    done = pruner.project(longer, window=100, reserve=0)
    assert done.decisions == ()
    assert placed(done) == masked


@pytest.mark.parametrize("lines", [1, 400])
@pytest.mark.parametrize("least", [5, 1000])
def test_neither_document_acts_on_a_marker_that_the_host_sends_back(least: int, lines: int):
    output = "word " * 2_000 if lines == 1 else ("x" * 300 + "\n") * lines
    history = flat(
        user(),
        bash("c1", "make", output),
        shell("ls", output),
        used("c2", "grep", {"q": 1}, output),
        read("c3", "a.py", output),
        read("c4", "a.py", output),
        used("c5", "bash", {"command": "y" * 3_000}, "failed", error=True),
        used("c6", "fetch", {}, text(output), image()),
        assistant("done"),
        *turns(7),
    )
    data = {**EAGER, "pruning": {"minResultTokens": least}}
    store = Memory("c")
    done = pruner_of(store, data).project(history, window=100, reserve=0)
    assert len(done.edits) == 7
    again = pruner_of(store, data).project(done.request, window=100, reserve=0)
    assert again.edits == ()
    assert again.request is done.request
