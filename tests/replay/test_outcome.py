"""What a benchmark came to is kept, and told as it was measured; without one, nothing is claimed."""

import json
from pathlib import Path

import pytest
from tests.replay.rows import figures, pair, session

from prunewise.replay import outcome
from prunewise.replay.outcome import Outcome, Share, advice, keep, last, outcome_of
from prunewise.replay.results import Detected, Missed, SessionRow
from prunewise.replay.totals import gather

FOUND = Outcome("2026-01-02", 12, 345, "priced", Share(-0.012), Share(0.214, 0.18, 0.25))


def test_what_was_kept_is_told_again(tmp_path: Path):
    folder = tmp_path / "cache" / "benchmark"
    keep(FOUND, folder)
    assert last(folder) == FOUND
    assert advice(last(folder)) == (
        "best: priced; on 12 pi sessions of yours (345 LLM calls) the policy priced would have saved 21.4% "
        "(18.0 to 25.0) of the input's cost, documented -1.2% (`prunewise benchmark` of 2026-01-02)"
    )


def compared(
    saved: float, *, format: str = "pi", sessions: int = 20, likely: float = 0.5
) -> list[SessionRow]:
    names = ("none", "documented", "priced")
    return [
        session(
            f"{format} {n}",
            *(
                figures(
                    name,
                    100.0 if name == "none" else 100 * (1 - saved) + n % 3 / 10,
                    removed=5,
                    missed=Missed(1, 5, 1, 1),
                    detected=Detected(100 * (1 - likely), 0, 0, 0, Missed()),
                )
                for name in names
            ),
            format=format,
        )
        for n in range(sessions)
    ]


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (compared(0.2), "best: documented; on 20 pi sessions"),
        # The lower figure counts, whatever the detector finds.
        (compared(-0.1), "nothing pays for certain; on 20 pi sessions"),
        (compared(0.2, sessions=9), "nothing pays for certain; on 9 pi sessions"),
        # Only pi's sessions say what pays in pi.
        ([*compared(0.2), *compared(-0.5, format="codex")], "best: documented; on 20 pi sessions"),
        ([*compared(-0.2), *compared(0.5, format="codex")], "nothing pays for certain; on 20 pi sessions"),
    ],
)
def test_advice_goes_by_the_lower_figure_of_pis_own_sessions(rows: list[SessionRow], said: str):
    assert advice(outcome_of(gather(rows), "2026-01-02")).startswith(said)


@pytest.mark.parametrize(
    "rows", [[], compared(0.2, format="codex"), [pair(f"{n}", 100, 80) for n in range(20)]]
)
def test_without_both_policies_on_sessions_of_pi_nothing_is_known(rows: list[SessionRow]):
    assert outcome_of(gather(rows), "2026-01-02") is None


def test_what_an_earlier_version_kept_is_not_told(tmp_path: Path):
    share = {"saved": 0.3}
    old = {"day": "2026-01-02", "sessions": 3, "llmCalls": 9, "documented": share, "priced": share}
    (tmp_path / "outcome.json").write_text(json.dumps(old))
    assert last(tmp_path) is None


def test_where_nothing_was_measured_no_figure_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "outcome.json").write_text('{"day": 3}')
    assert last(tmp_path) is None
    assert last(tmp_path / "nowhere") is None
    assert last(None) is None
    assert "is not known: `prunewise benchmark` measures it" in advice(None)
    monkeypatch.setattr(outcome, "find_spec", lambda _: None)
    assert outcome.cache_folder() is None


def test_a_folder_that_cannot_be_written_stops_nothing(tmp_path: Path):
    (tmp_path / "file").write_text("")
    keep(FOUND, tmp_path / "file" / "benchmark")
