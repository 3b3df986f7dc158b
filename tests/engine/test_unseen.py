"""No result is hidden that the model has not yet had in full."""

import pytest
from tests import build
from tests.build import Native, assistant, bash, call, flat, result, user
from tests.engine.support import BIG, RESULT, data, decide, follow, texts

PARALLEL = flat(
    user(),
    assistant(call("1", "bash", command="ls"), call("2", "bash", command="ls")),
    result("1", BIG, name="bash"),
    result("2", BIG, name="bash"),
)
READ_AND_EDIT = flat(
    user(),
    assistant(call("1", "read", path="f"), call("2", "edit", path="f", oldText="a", newText="b")),
    result("1", BIG),
    result("2", "Successfully replaced 1 block(s) in f.", name="edit"),
)
ONE = flat(user(), bash("1", "ls", BIG))
READ_TWICE = flat(
    user(),
    assistant(call("1", "read", path="f"), call("2", "read", path="f")),
    result("1", BIG),
    result("2", BIG),
)


@pytest.mark.parametrize("natives", [ONE, PARALLEL, READ_AND_EDIT, READ_TWICE])
def test_masking_waits_for_the_answer(natives: list[Native]):
    engine = build.engine(flat(natives, user()))
    assert engine.unmasked_saving == 0
    assert engine.mask() == []
    engine.extend(build.messages(flat(natives, user(), assistant("done"), user()))[-2:])
    assert engine.unmasked_saving > 0
    assert "1" in [output.call_id for output, _ in engine.mask()]


@pytest.mark.parametrize("natives", [PARALLEL, READ_TWICE])
def test_the_documented_policy_waits_for_the_answer(natives: list[Native]):
    engine = build.engine(flat(natives, user()), data=data(gate={"enabled": False}))
    verdict = engine.verdict()
    assert engine.accepted(verdict) == []
    engine.extend(build.messages(flat(natives, user(), assistant("done"), user()))[-2:])
    assert "1" in [one.call for one in engine.accepted(engine.verdict())]


USED = {"input": 10, "output": 0, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 10}
ANSWERS = {
    "a whole answer": (assistant("done"), True),
    "one that was aborted after it began": (assistant("do", stopReason="aborted"), True),
    "an empty one with usage": (assistant(usage=USED), True),
    "an empty one, aborted": (assistant(stopReason="aborted"), False),
    "an empty one, failed": (assistant(stopReason="error", errorMessage="overloaded"), False),
    "an empty one, failed, with a usage of nothing": (
        assistant(stopReason="error", usage=dict.fromkeys(USED, 0)),
        False,
    ),
}


@pytest.mark.parametrize(("answer", "proves"), ANSWERS.values(), ids=ANSWERS)
def test_only_an_answer_with_content_or_usage_proves_that_an_output_was_seen(answer: Native, proves: bool):
    engine = build.engine(flat(ONE, answer, user()))
    assert engine.transcript.sent == 4
    assert engine.transcript.seen == (4 if proves else 2)
    assert [output.call_id for output, _ in engine.mask()] == (["1"] if proves else [])


def test_a_person_may_prune_what_is_unseen():
    engine = build.engine(flat(ONE, user()))
    follow(engine, decide("manual", "1", RESULT))
    assert texts(engine)["m2"] == "[gone]"
