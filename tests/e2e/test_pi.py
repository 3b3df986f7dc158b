"""The real pi with the extension, against a scripted model: what the model gets, what the session holds."""

import pytest

from tests.e2e.model_server import ModelServer
from tests.e2e.pi_agent import Pi

pytestmark = pytest.mark.e2e


def test_duplicates_go_out_as_markers_and_recall_gives_them_back(pi: Pi, model: ModelServer):
    pi.pruning(protections={"recentTurns": 0})
    text = pi.write("a.txt", "".join(f"line {n} of the file\n" for n in range(200)))
    model.script = [
        [("read", {"path": "a.txt"})],
        [("read", {"path": "a.txt"})],
        lambda seen: [("recall", {"ref": seen.results["call_1_0"].split("recall ")[1].split(" ")[0]})],
        "Done.",
    ]
    pi.say("Read it twice.")
    first, second, third, fourth = model.asked
    assert first.results == {}
    assert second.results["call_1_0"].startswith("line 0")
    assert third.results["call_1_0"].startswith("[prunewise: read output")
    assert third.results["call_2_0"].startswith("line 0")
    assert fourth.results["call_3_0"] == text.rstrip("\n") or fourth.results["call_3_0"] == text
    assert fourth.results["call_1_0"] == third.results["call_1_0"]
    assert model.breaks == 1
    (decision,) = pi.custom("decision")
    assert decision["strategyId"] == "dedupe"
    assert decision["placeholder"] == third.results["call_1_0"]
