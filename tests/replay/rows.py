"""Rows for tests of totals and reports, made of as few figures as a test cares for."""

from collections.abc import Mapping
from typing import Any

from prunewise.replay.harness import Found
from prunewise.replay.results import Detected, Figures, Missed, SessionRow, WorstRecall
from prunewise.replay.timeline import CutMark, Series, Timeline


def figures(policy: str, cost: float, **given: Any) -> Figures:
    defaults: dict[str, Any] = {
        "suffix_cost": cost,
        "recall_cost": 0.0,
        "dollars": None,
        "own_optimum": None,
        "breaks": 0,
        "peak": 100.0,
        "final": 100.0,
        "removed": 0,
        "removed_by_strategy": {},
        "removed_by_tool": {},
        "compactions_avoided": 0,
        "calls_gained": 0.0,
    }
    return Figures(policy, cost, **{**defaults, **given})


def session(source: str, *found: Figures, **given: Any) -> SessionRow:
    defaults: dict[str, Any] = {
        "session": source,
        "project": "",
        "format": "pi",
        "model": "claude-opus-4-5",
        "provider": "anthropic",
        "started": None,
        "lineage": "",
        "bytes": 10,
        "llm_calls": 30,
        "copied": 0,
        "aside": 0,
        "tool_calls": 0,
        "tool_errors": 0,
        "compactions": 0,
        "warmth": "recorded",
        "prefix": 0.0,
        "scale": 1.0,
        "baseline_error": 0.0,
        "excluded": False,
        "price_known": True,
        "candidates": (),
    }
    return SessionRow(source=source, figures=found, **{**defaults, **given})


def pair(source: str, none: float, documented: float, recalls: float = 0.0, **given: Any) -> SessionRow:
    """A session under `none` and `documented`."""
    removed = 100 if documented != none or recalls else 0
    missed = Missed(1, removed, int(recalls > 0), int(recalls > 0)) if removed else Missed()
    cut = figures("documented", documented, recall_cost=recalls, removed=removed, missed=missed)
    return session(source, figures("none", none), cut, **given)


def candidate(**given: Any) -> Found:
    defaults: dict[str, Any] = {
        "strategy": "dedupe",
        "call": "call-1",
        "boundary": 9,
        "state": "idle",
        "position": 3,
        "original_tokens": 120,
        "tokens_removed": 100,
        "tail_tokens": 1000,
        "remaining_calls": 10,
    }
    return Found(**{**defaults, **given})


def rich_rows(
    secret: str = "", sessions: int = 12, tools: Mapping[str, int] | None = None
) -> list[SessionRow]:
    """Sessions with everything that reports show, a secret in every place that may hold text of a session."""
    rows: list[SessionRow] = []
    for index in range(sessions):
        none = 1000.0 * (index + 1)
        named = f"{secret}settings.json"
        removed: dict[str, Any] = {
            "removed": 600,
            "removed_by_strategy": {"dedupe": 400, "masking": 200},
            "removed_by_tool": tools or {"read": 500, f"{secret}tool": 100},
            "breaks": 1,
            "missed": Missed(6, 600, 1, 2, {"old-line": 1}),
            "missed_at_random": Missed(6, 640, 2, 3, {"reference": 2}),
            "missed_oldest_first": Missed(6, 610, 1, 1, {"page": 1}),
            "missed_largest_first": Missed(2, 700, 0, 0),
        }
        worst = WorstRecall("documented", 0, 7, 5, 0, 321, "old-line", f"{secret}key", index, "dedupe")
        tokens = tuple(100 * (call + 1) for call in range(30))
        pruned = tuple(min(one, 1500) for one in tokens)
        line = Timeline(
            tuple(range(30)),
            tokens,
            (4, 9),
            (20,),
            (Series("documented", pruned, (CutMark(15, 200, True), CutMark(20, 100, False))),),
        )
        rows.append(
            session(
                f"/home/{secret}user/sessions/{index:02}.jsonl",
                figures("none", none, dollars=0.1, own_optimum=none, peak=3000.0, final=3000.0),
                figures(
                    "documented",
                    none * (0.9 if index % 3 else 1.2),
                    recall_cost=10.0,
                    dollars=0.11,
                    own_optimum=0.7 * none,
                    detected=Detected(none * (0.9 if index % 3 else 1.1), none, 4.0, 1, Missed(6, 600, 1, 1)),
                    **removed,
                ),
                figures(named, none * 0.8, recall_cost=5.0, dollars=0.08, own_optimum=0.7 * none, **removed),
                figures("optimal", none * 0.7, own_optimum=0.7 * none, removed=300),
                session=f"{secret}id-{index}",
                project=f"/home/{secret}project",
                model=f"{secret}model" if index % 2 else "claude-opus-4-5",
                provider=f"{secret}provider" if index % 2 else "anthropic",
                price_known=index % 2 == 0,
                started=1_700_000_000.25,
                lineage=f"{index:024x}",
                candidates=(
                    candidate(call=f"{secret}call"),
                    candidate(strategy="error-purge", state="mid_loop", tokens_removed=0, tail_tokens=10),
                ),
                worst=(worst,),
                warnings=(f"{secret}warning",),
                timeline=line if index in (sessions - 1, sessions - 2) else None,
            )
        )
    return rows
