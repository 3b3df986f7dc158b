"""Under which reference an output goes."""

from collections.abc import Iterable

import pytest
from tests import build
from tests.build import LONG, NO_FLOOR, Native, bash, flat, proposed, shell, used, user
from tests.engine.support import STALE

from prunewise import markers
from prunewise.engine import Engine, Rules
from prunewise.errors import RefusedError


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


@pytest.mark.parametrize("name", ["recall", "RECALL", "grep"])
@pytest.mark.parametrize("error", [False, True])
def test_an_output_goes_by_its_own_reference_whatever_was_asked(name: str, error: bool):
    engine = build.engine(
        used("1", name, {"ref": "#7"}, error=error), used("2", name, {"ref": "#7"}), data=NO_FLOOR
    )
    (proposal,) = engine.proposals
    assert (proposal.reference, markers.reference_in(proposal.marker)) == ("#m1", "#m1")
    assert [one.call.id for one in engine.recalls] == ([] if name == "grep" else ["1", "2"])
