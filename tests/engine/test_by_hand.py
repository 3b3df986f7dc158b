"""A person's own prunes."""

import pytest
from tests import build
from tests.build import Native, assistant, bash, call, image, read, used, user
from tests.engine.support import INPUT, RESULT, STALE, data, decide, texts, undo

from prunewise import markers
from prunewise.errors import RefusedError


def test_a_manual_prune_bypasses_floor_recency_and_gate():
    settings = data(recent=99, floor=99_999, gate={"breakEvenThreshold": 0})
    engine = build.engine(user(), bash("1", "x"), data=settings)
    proposal = engine.manual("1")
    assert (proposal.strategy, proposal.kind, proposal.position) == ("manual", RESULT, 2)
    assert proposal.marker == markers.output("bash", 900, markers.BY_USER, "#m2")


def test_a_manual_prune_of_an_input():
    proposal = build.engine(STALE).manual("p", INPUT)
    assert (proposal.kind, proposal.position) == (INPUT, 1)


def test_a_manual_prune_brings_a_restored_target_back():
    assert build.engine(STALE, entries=[undo("dedupe", "d")]).manual("d").call == "d"


REFUSED: dict[str, tuple[list[Native], str]] = {
    "not there": (bash("2", "x"), "no completed call"),
    "in flight": ([assistant(call("1", "x"))], "no completed call"),
    "a protected tool": (used("1", "Todo", {}), "tool Todo is protected"),
    "a protected path": (read("1", "a/.env"), "path is protected by **/.env"),
    "pruned already": (bash("1", "x"), "pruned already"),
    "no smaller": (bash("1", "x", "short"), "not be smaller"),
}


@pytest.mark.parametrize(("natives", "reason"), REFUSED.values(), ids=REFUSED)
def test_a_manual_prune_is_refused_with_the_reason(natives: list[Native], reason: str):
    entries = [decide("dedupe", "1")] if reason == "pruned already" else []
    with pytest.raises(RefusedError) as refused:
        build.engine(natives, entries=entries).manual("1")
    assert str(refused.value).startswith("1: ")
    assert reason in str(refused.value)


def test_an_image_alone_can_be_pruned_by_hand():
    assert build.engine(bash("1", "x", image())).manual("1").original_tokens == 1200


def test_a_preview_edits_as_if_the_proposal_stood():
    engine = build.engine(STALE)
    for proposal in engine.proposals:
        engine.preview(proposal)
    assert texts(engine) == {f"m{one.position}": one.marker for one in build.engine(STALE).proposals}
    assert engine.removed_tokens == sum(one.tokens_removed for one in build.engine(STALE).proposals)


def test_a_preview_of_a_call_that_is_not_here_changes_nothing():
    engine = build.engine(bash("1", "x"))
    engine.preview(build.engine(bash("2", "x")).manual("2"))
    assert engine.edits == {}
