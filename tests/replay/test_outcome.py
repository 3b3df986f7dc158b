"""What a benchmark came to is kept, and told as it was measured; without one, nothing is claimed."""

from pathlib import Path

import pytest

from prunewise.replay import outcome
from prunewise.replay.outcome import Outcome, Share, advice, keep, last

FOUND = Outcome("2026-01-02", 12, 345, Share(-0.012), Share(0.214, 0.18, 0.25))


def test_what_was_kept_is_told_again(tmp_path: Path):
    folder = tmp_path / "cache" / "benchmark"
    keep(FOUND, folder)
    assert last(folder) == FOUND
    assert advice(last(folder)) == (
        "on 12 sessions of yours (345 LLM calls) the policy priced would have saved 21.4% (18.0 to 25.0) of "
        "the input's cost, documented -1.2% (`prunewise benchmark` of 2026-01-02)"
    )


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
