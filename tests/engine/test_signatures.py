"""Models whose signed thinking covers all before it: what was sent stays as it was, whatever may go."""

from collections.abc import Iterable
from typing import Any

import pytest
from tests import build
from tests.build import Native, assistant, flat, read, thinking, user

from prunewise import Policy, Pruner
from prunewise.engine import NOW, Engine, Moment
from prunewise.errors import RefusedError

COVERING = "claude-fable-5-1"
OTHER = "claude-opus-4-5"
EAGER = {**build.NO_FLOOR, "gate": {"mode": "always-apply"}}
MASKING = {"enabled": False, "window": 1_000, "reserve": 100}
BIG = "line of output\n" * 400


def signed(signature: str = "sig") -> Native:
    return assistant(thinking("hm", signature), "so")


def by(model: str, *natives: Native | Iterable[Native]) -> list[Native]:
    """The same, all of it answered by one model."""
    return [{**one, "model": model} if one["role"] == "assistant" else one for one in flat(*natives)]


def history(*, model: str = COVERING, signature: str = "sig") -> list[Native]:
    """A read that a later one repeats, before and behind a signed block each."""
    before = flat(user(), read("1", "a", BIG), read("2", "a", BIG), signed(signature))
    return by(model, before, user(), read("3", "b", BIG), read("4", "b", BIG), assistant("done"), user())


def going(engine: Engine, moment: Moment = NOW) -> list[str]:
    return [one.call for one in engine.accepted(engine.verdict(moment))]


@pytest.mark.parametrize(
    ("natives", "moment", "calls"),
    [
        (history(), NOW, ["3"]),
        (history(), Moment(model=OTHER), ["1", "3"]),
        (history(), Moment(drops_thinking=True), ["1", "3"]),
        (history(model=OTHER), NOW, ["1", "3"]),
        (history(model=OTHER), Moment(model=COVERING), ["3"]),
        (history(model=OTHER), Moment(model="mythos", provider="anthropic"), ["1", "3"]),
        (history(signature=""), NOW, ["1", "3"]),
        (history(model=""), NOW, ["1", "3"]),
        (by(COVERING, history(), signed()), NOW, []),
    ],
    ids=[
        "covered",
        "another model is to answer",
        "the host drops thinking",
        "another model answered",
        "a covering model takes over",
        "a model that nobody knows",
        "no signature",
        "no model",
        "all covered",
    ],
)
def test_what_a_signature_covers_does_not_go(natives: list[Native], moment: Moment, calls: list[str]):
    assert going(build.engine(natives, data=EAGER), moment) == calls


def test_what_is_covered_is_not_priced():
    engine = build.engine(history(), data=EAGER)
    verdict = engine.verdict()
    alone = engine.price([one for one in engine.proposals if one.call == "3"])
    assert (verdict.earliest, verdict.tokens_removed) == (alone.earliest, alone.tokens_removed)
    assert (
        going(build.engine(by(COVERING, history(), signed()), data={**EAGER, "gate": {"mode": "off"}})) == []
    )


def test_what_stood_before_the_signature_goes_on():
    pruner = Pruner("pi", Policy(EAGER))
    first = pruner.project(history()[:5])
    assert [edit.position for edit in first.edits] == [2]
    later = pruner.project(history()[:7])
    assert later.edits == first.edits


def test_a_person_cannot_prune_what_is_covered():
    engine = build.engine(history())
    with pytest.raises(RefusedError, match="1: signed thinking covers it"):
        engine.manual("1")
    assert engine.manual("4").call == "4"


# ---------------------------------------------------------------- masking


def masking(natives: list[Native], **more: Any) -> Pruner:
    pruner = Pruner("pi", Policy({**MASKING, **more}))
    pruner.engage()
    pruner.read(natives)
    return pruner


def test_masking_leaves_what_is_covered():
    pruner = masking(history())
    assert [edit.position for edit in pruner.project(history()).edits] == [8, 10]
    assert [edit.position for edit in masking(history(model=OTHER)).project(history(model=OTHER)).edits] == [
        2, 4, 8, 10,
    ]  # fmt: skip


def test_once_the_signed_block_is_gone_masking_takes_up_what_it_covered():
    pruner = masking(history())
    pruner.project(history())
    without = [one for one in history() if one not in by(COVERING, signed())]
    assert len(pruner.project(without).edits) == 4


def test_a_compaction_is_not_left_out_for_what_cannot_be_masked():
    window, reserve = 5_000, 500
    natives = flat(user(), read("1", "a", BIG * 2), read("2", "b", BIG * 2), signed(), user())
    assert not masking(by(COVERING, natives)).check_compaction(window, reserve).cancel
    assert masking(by(OTHER, natives)).check_compaction(window, reserve).cancel


def test_what_was_masked_stays_masked_behind_a_signature_and_after_a_restart():
    natives = by(COVERING, user(), read("1", "a", BIG), assistant("done"), user())
    pruner = masking(natives)
    first = pruner.project(natives)
    assert [edit.position for edit in first.edits] == [2]
    longer = by(COVERING, natives, signed(), user())
    assert pruner.project(longer).edits == first.edits
    other = [*longer[:-1], user("rewritten")]
    assert pruner.project(other).edits == first.edits, "the engine began anew over the first messages"
