"""The real pi under the priced policy: a long session, against a provider with breakpoints and lookback."""

import re
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.model_server import Answer, ModelServer, Seen
from tests.e2e.pi_agent import Pi

pytestmark = pytest.mark.e2e

CALLS = 72
PARTS = 4


def script(number: int) -> Answer:
    """What the model does at a step: reads, searches, tests that fail, large outputs, and the same again."""
    source = ("read", {"path": f"src{number % 12}.py"})
    return (
        run(f"cat big{number % 3}.log"),
        Answer(calls=(source,)),
        run("grep -n value src1.py src2.py"),
        run(f"echo run {number}; sed -n 1,120p tests.log; exit 1"),
        run(f"ls | head -40; echo {number}"),
        Answer(calls=(source,)),
        Answer(calls=(source, ("bash", {"command": f"seq {number} {number + 150}"}))),
        run(f"sed -n 1,400p big{number % 3}.log | tail -n 300"),
    )[number % 8]


def run(command: str) -> Answer:
    return Answer(calls=(("bash", {"command": command}),))


def agent(folder: Path, model: ModelServer, **settings: Any) -> Pi:
    """pi with a large window, and a project to work on."""
    pi = Pi(folder, model.port, window=1_000_000)
    pi.install()
    pi.pruning(**settings)
    for number in range(12):
        source = (f"def value_{number}_{at}():\n    return {at}\n" for at in range(150))
        pi.write(f"src{number}.py", "".join(source))
    for number in range(3):
        log = (f"{at} request {number} took {at % 97} ms\n" for at in range(900))
        pi.write(f"big{number}.log", "".join(log))
    pi.write("tests.log", "".join(f"tests/test_{at}.py::test_{at} PASSED\n" for at in range(200)))
    return pi


def converse(pi: Pi, model: ModelServer) -> list[str]:
    """The whole session, the second half of it in a new process: the status at the end of each half."""
    found: list[str] = []
    for half in range(2):
        with pi.rpc(*(("--session", str(pi.session)) if half else ())) as rpc:
            for part in range(half * PARTS // 2, (half + 1) * PARTS // 2):
                steps = range(part * CALLS // PARTS, (part + 1) * CALLS // PARTS)
                model.script = [script(number) for number in steps]
                rpc.prompt(f"Go on with part {part}.")
            found += rpc.command("/context-pruning status")
    return found


def figure(status: str, pattern: str) -> float:
    found = re.search(pattern, status)
    assert found, status
    return float(found[1].replace(",", ""))


def cold(requests: list[Seen]) -> int:
    """The requests that did not find what the one before had left."""
    return sum(after.bill.read < before.bill.tokens for before, after in pairwise(requests))


def test_a_long_session(tmp_path: Path):
    """The session as it is, and the same pruned."""
    with ModelServer() as pruned, ModelServer() as whole, ThreadPoolExecutor() as both:
        pi = agent(tmp_path / "pruned", pruned, policy="priced")
        other = agent(tmp_path / "whole", whole, enabled=False)
        waiting = both.submit(converse, other, whole)
        status = converse(pi, pruned)
        waiting.result()
        breaks_and_saving_are_what_the_status_says(pruned, whole, status)
        what_has_gone_out_changes_with_a_cut_and_never_else(pruned, pi)
        status.append(every_marker_is_recalled_and_restored(pruned, pi))
        with other.rpc("--session", str(other.session)) as rpc:
            rpc.prompt("Get them back.")
            rpc.prompt("And now?")
        recalls_and_restores_are_paid_for(pruned, whole, status[-1])


def breaks_and_saving_are_what_the_status_says(pruned: ModelServer, whole: ModelServer, status: list[str]):
    assert len(pruned.asked) == len(whole.asked) == CALLS + PARTS
    breaks = sum(figure(one, r"cache breaks: (\d+)") for one in status)
    assert breaks == pruned.breaks == cold(pruned.asked) > 0
    assert whole.breaks == cold(whole.asked) == 0
    cost, without = (sum(one.bill.cost() for one in model.asked) for model in (pruned, whole))
    assert without - cost > 0.2 * without
    said = figure(status[-1], r"net saving: \+([\d,]+) input tokens")
    assert said == pytest.approx(without - cost, rel=0.05)
    assert figure(status[-1], r"of what the input of (\d+) LLM calls") == CALLS + PARTS
    assert figure(status[-1], r"\$([\d.]+)\)") == pytest.approx((without - cost) / 1e6, rel=0.05)


def what_has_gone_out_changes_with_a_cut_and_never_else(pruned: ModelServer, pi: Pi):
    """Across the restart too: a text that was sent is sent again, or has become a marker for good."""
    forms: dict[str, list[str]] = {}
    for request in pruned.asked:
        for call, text in request.results.items():
            seen = forms.setdefault(call, [])
            if not seen or seen[-1] != text:
                seen.append(text)
    assert all(len(seen) <= 2 for seen in forms.values())
    free = {"noise", "repeated-output"}
    for decision in pi.custom("decision"):
        call = decision["correlation"]["toolCallId"]
        assert forms[call][-1] == decision["placeholder"]
        assert len(forms[call]) == 1 + (decision["strategyId"] not in free)


def every_marker_is_recalled_and_restored(pruned: ModelServer, pi: Pi) -> str:
    results = {
        one["message"]["toolCallId"]: one["message"]["content"][0]["text"]
        for one in pi.entries()
        if one["type"] == "message" and one["message"]["role"] == "toolResult"
    }
    commands = {
        call: " ".join(arguments.get("command", arguments.get("path")).split())
        for call, arguments in pruned.asked[-1].inputs.items()
    }
    latest = {one["strategyId"]: one for one in pi.custom("decision")}
    assert latest.keys() == {"repeated-output", "stale-outputs"}
    calls = tuple(("recall", {"ref": f"{one['reference']}:full"}) for one in latest.values())
    before = len(pruned.asked)
    with pi.rpc("--session", str(pi.session)) as rpc:
        pruned.script = [Answer(calls=calls), "I have them."]
        rpc.prompt("Get them back.")
        asked = pruned.asked[before]
        number = pruned.requests.index(asked) + 1
        for index, decision in enumerate(latest.values()):
            original = results[decision["correlation"]["toolCallId"]]
            assert pruned.asked[-1].results[f"call_{number}_{index}"] == original
        rpc.answers["confirm"] = lambda _: {"confirmed": True}
        for decision in latest.values():
            about = commands[decision["correlation"]["toolCallId"]]
            rpc.answers["select"] = lambda event, about=about: {
                "value": next(one for one in event["options"] if "[pruned]" in one and about in one)
            }
            (done,) = rpc.command("/prune")
            assert done.startswith("Restored")
        rpc.prompt("And now?")
        (status,) = rpc.command("/context-pruning status")
    restored = [one["idempotencyKey"].split(":") for one in pi.custom("restore")]
    assert {strategy for strategy, _, _ in restored} == latest.keys()
    for _, _, call in restored:
        assert pruned.asked[-1].results[call] == results[call]
    assert figure(status, r"and (\d+) recalls that cost") == len(latest)
    return status


def recalls_and_restores_are_paid_for(pruned: ModelServer, whole: ModelServer, status: str):
    """Without pruning there would have been no call to get something back, and no break to restore it."""
    assert len(pruned.asked) == len(whole.asked) + 1
    cost, without = (sum(one.bill.cost() for one in model.asked) for model in (pruned, whole))
    said = figure(status, r"net saving: \+([\d,]+) input tokens")
    assert said == pytest.approx(without - cost, rel=0.05)


def test_the_policy_is_switched_in_the_middle_of_a_session(tmp_path: Path):
    with ModelServer() as model:
        pi = agent(tmp_path, model)
        with pi.rpc() as rpc:
            model.script = [run("seq 1 1500"), "Done."]
            rpc.prompt("Count.")
            assert rpc.command("/context-pruning policy priced") == ["The policy is priced."]
            model.script = [run("seq 1 1500"), run("true"), "Done."]
            rpc.prompt("And on.")
            footer = rpc.status()
        first, second, _ = model.asked[-1].results.values()
        assert first == model.asked[1].results["call_1_0"]
        assert second.startswith("[prunewise: bash output"), "it is in view already, byte for byte"
        assert footer is not None
        assert re.fullmatch(r"pruned [\d,]+ of [\d,]+ tokens, net \+\d+\.\d% \(\$0\.\d+\)", footer)
        with pi.rpc("--session", str(pi.session)) as rpc:
            (status,) = rpc.command("/context-pruning status")
        assert "policy: priced" in status
        assert model.breaks == 0


def test_a_change_of_the_model_is_a_moment_to_cut(tmp_path: Path):
    """Nothing is cached then, so that what is old goes at no cost."""
    with ModelServer() as model:
        pi = agent(tmp_path, model, policy="priced")
        with pi.rpc() as rpc:
            model.script = [script(number) for number in range(16)]
            rpc.prompt("Go on.")
            assert "stale-outputs" not in {one["strategyId"] for one in pi.custom("decision")}
            rpc.ask(type="set_model", provider="anthropic-mock", modelId="large")
            rpc.prompt("Go on with the larger one.")
            (status,) = rpc.command("/context-pruning status")
        cut = [one for one in pi.custom("decision") if one["strategyId"] == "stale-outputs"]
        assert cut
        assert all(
            model.asked[-1].results[one["correlation"]["toolCallId"]] == one["placeholder"] for one in cut
        )
        assert figure(status, r"cache breaks? that cost ([\d,]+)") == 0
