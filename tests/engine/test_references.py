"""Under which reference an output goes."""

from collections.abc import Iterable

import pytest
from tests import build
from tests.build import LONG, NO_FLOOR, Native, bash, flat, proposed, shell, used, user
from tests.engine.support import STALE

from prunewise import markers
from prunewise.engine import Engine, Rules
from prunewise.errors import RefusedError
from prunewise.transcript import Exchange


def without_references(*natives: Native | Iterable[Native]) -> Engine:
    engine = Engine(Rules(build.with_settings(NO_FLOOR)), lambda _message, _call: None)
    engine.extend(build.messages(flat(*natives)))
    return engine


def test_without_a_reference_nothing_goes():
    engine = without_references(STALE, bash("m", "y", LONG * 9), shell("ls", LONG * 9), user())
    assert proposed(engine) == []
    assert engine.mask() == []
    with pytest.raises(RefusedError):
        engine.manual("m")


def test_the_reference_is_asked_for_by_message_and_call():
    asked: list[tuple[str, str]] = []
    engine = Engine(Rules(build.with_settings(NO_FLOOR)), lambda *pair: asked.append(pair))
    engine.extend(build.messages(flat(user(), bash("1", "x"), bash("2", "x"))))
    assert asked == [("m2", "1")]


def test_a_recalled_output_goes_by_its_original():
    natives = flat(used("1", "recall", {"ref": "#7"}), used("2", "RECALL", {"ref": "#7"}))
    asked: list[tuple[str, str]] = []

    def recalled(reference: str, exchange: Exchange) -> str | None:
        asked.append((reference, exchange.call.id))
        return "#original"

    engine = build.engine(natives, recalled=recalled)
    (proposal,) = engine.proposals
    assert (proposal.reference, markers.reference_in(proposal.marker)) == ("#original", "#original")
    assert asked == [("#7", "1")]
    assert [one.call.id for one in engine.recalls] == ["1", "2"]


OWN_REFERENCE: dict[str, list[Native]] = {
    "a recall that failed": flat(
        used("1", "recall", {"ref": "#7"}, error=True), used("2", "recall", {"ref": "#7"})
    ),
    "a recall of no reference": flat(used("1", "recall", {}), used("2", "recall", {})),
    "a recall of a number": flat(used("1", "recall", {"ref": 7}), used("2", "recall", {"ref": 7})),
    "a recall of something unknown": flat(
        used("1", "recall", {"ref": "#8"}), used("2", "recall", {"ref": "#8"})
    ),
    "another tool": flat(used("1", "grep", {"ref": "#7"}), used("2", "grep", {"ref": "#7"})),
}


@pytest.mark.parametrize("natives", OWN_REFERENCE.values(), ids=OWN_REFERENCE)
def test_else_an_output_goes_by_its_own_reference(natives: list[Native]):
    def recalled(reference: str, _: Exchange) -> str | None:
        return "#original" if reference == "#7" else None

    assert [one.reference for one in build.engine(natives, recalled=recalled).proposals] == ["#m1"]


def test_without_a_way_to_look_recalls_up_they_go_by_their_own():
    engine = build.engine(used("1", "recall", {"ref": "#7"}), used("2", "recall", {"ref": "#7"}))
    assert [one.reference for one in engine.proposals] == ["#m1"]
