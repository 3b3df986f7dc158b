"""The TypeScript extension's results on random sessions: every figure of the gate, every proposal."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

import prunewise
from prunewise.gates import Verdict, break_even

pytestmark = pytest.mark.corpus

SMALLEST = 60
"""Proposals of fewer original tokens are not compared: there the length of the marker decides."""


def test_every_figure_of_the_gate(shared: Path):
    rows = _rows(shared / "golden" / "gate.jsonl")
    assert len(rows) == 320
    for number, row in enumerate(rows, start=1):
        candidates = [(one["position"], one["tokensRemoved"]) for one in row["candidates"]]
        verdict = break_even(row["messageTokens"], candidates, row["gate"], row["state"])
        figures = {
            "accepted": verdict.accepted,
            "threshold": verdict.threshold,
            "earliest": verdict.earliest,
            "tail": verdict.tail_tokens,
            "removed": verdict.tokens_removed,
            "cost": _cost(verdict),
        }
        assert figures == {key: row["expect"][key] for key in figures}, f"row {number}"


def test_every_proposal_at_every_prefix(shared: Path):
    """All but those that take an output for stale which no later one holds: the extension goes by the lines
    that were asked for, takes text, zero and negative numbers as absent, and takes the order of calls that
    were made at once for that in which they ran.
    """
    prefixes = held = 0
    for row in _rows(shared / "golden" / "proposals.jsonl"):
        settings = {**row["config"], "thresholds": {"minCharsSaved": 0}}
        for expect in row["expect"]:
            prefixes += 1
            sent = row["messages"][: expect["prefix"]]
            plan = prunewise.plan(sent, format="pi", settings=settings, cwd=row["cwd"]).to_dict()
            place = f"case {row['case']}, prefix {expect['prefix']}"
            assert plan["state"] == expect["state"], place
            assert plan["totalTokens"] == expect["totalTokens"], place
            large = [one for one in plan["proposals"] if one["originalTokens"] >= SMALLEST]
            keys = ("strategy", "kind", "call", "position", "originalTokens")
            found = [{key: one[key] for key in keys} for one in large]
            more = [one for one in expect["proposals"] if one not in found]
            assert found == [one for one in expect["proposals"] if one not in more], place
            assert all(one["strategy"] == "superseded-file-ops" for one in more), place
            held += len(more)
    assert (prefixes, held) == (476, 100), "of 1,506 proposals"


def _rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]


def _cost(verdict: Verdict) -> dict[str, Any] | None:
    if verdict.penalty is None:
        return None
    calls = verdict.break_even_calls
    return {
        "penalty": verdict.penalty,
        "recurringSaving": verdict.recurring_saving,
        "breakEvenCalls": "inf" if math.isinf(calls) else calls,
    }
