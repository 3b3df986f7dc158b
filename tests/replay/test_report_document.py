"""The JSON document, the Parquet files, and what a shared report must not tell."""

import io
import json
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet as pq
import pytest
from rich.console import Console
from tests.replay.rows import candidate, pair, rich_rows

from prunewise.replay.report import document, html, parquet
from prunewise.replay.report.share import anonymous
from prunewise.replay.report.terminal import render
from prunewise.replay.results import ErrorRow, Row
from prunewise.replay.totals import gather

SECRET = "hunter2-"


def rows(sessions: int = 12) -> list[Row]:
    return [
        *rich_rows(SECRET, sessions),
        ErrorRow(f"/{SECRET}bad", f"{SECRET}reason", 5),
        *(
            one
            for one in rich_rows(SECRET, 1)
            for one in (
                pair_like(one, f"/{SECRET}excluded", excluded=True, baseline_error=0.5),
                pair_like(one, f"/{SECRET}copy", llm_calls=0, copied=3),
            )
        ),
    ]


def pair_like(row: Any, source: str, **given: Any) -> Any:
    return msgspec.structs.replace(row, source=source, **given)


def test_keys_are_stable():
    found = document.to_json(gather(rows()))
    assert list(found) == [
        "version", "active", "policies", "files", "bytes", "readSessions", "llmCalls", "formats", "warmth",
        "assumedPrices", "warnings", "withLoss", "baseline", "errors", "excluded", "copies", "empty",
        "copiedCalls", "asideCalls", "warned", "all", "long", "clients", "sessions", "worstSessions",
        "worstRecalls", "harness", "verdict",
    ]  # fmt: skip
    assert list(found["all"]["policies"][0]) == [
        "policy", "net", "gross", "suffixNet", "suffix", "recallCost", "acted", "gained", "lost",
        "optimumShare", "ownOptimum", "ownOptimumShare", "breaks", "breaksPer100Calls", "peak", "final",
        "compactionsAvoided", "callsGained", "removed", "removedByStrategy", "removedByTool", "dollars",
        "missed", "missedAtRandom", "missedOldestFirst", "missedLargestFirst", "detected",
    ]  # fmt: skip
    assert list(found["all"]) == [
        "minCalls", "sessions", "llmCalls", "compactions", "largestShare", "policies", "recommended",
    ]  # fmt: skip
    assert found["excluded"][0]["source"] == f"/{SECRET}excluded"
    assert found["copies"][0]["source"] == f"/{SECRET}copy"
    assert (found["copiedCalls"], found["warned"]) == (3, [f"{SECRET}warning"] * 14)


def test_infinite_numbers_are_null_and_said_to_be_unbounded():
    totals = gather([pair("a", 1, 1, candidates=(candidate(tokens_removed=0),))])
    (found,) = document.to_json(totals)["harness"]["bySession"]
    assert found["breakEvenCalls"] is None
    assert found["unbounded"] is True
    json.dumps(document.to_json(totals), allow_nan=False)


def test_a_shared_document_tells_nothing_and_keeps_the_figures():
    totals = gather(rows())
    whole, shared = document.to_json(totals), document.to_json(totals, share=True)
    text = json.dumps(shared)
    assert SECRET not in text
    assert "/home" not in text
    assert shared["all"]["policies"][1]["net"] == whole["all"]["policies"][1]["net"]
    assert shared["policies"][2]["policy"] == "settings 1"
    assert (shared["errors"], shared["excluded"], shared["copies"]) == (1, 1, 1)
    assert (shared["copiedCalls"], shared["warned"]) == (3, 14)
    assert shared["all"]["policies"][1]["removedByTool"] == {"read": 6000, "other": 1200}
    assert all(one["session"].startswith("session ") for one in shared["sessions"])
    assert len({one["session"] for one in shared["sessions"]}) == len(shared["sessions"])
    assert "settings 1" in " ".join(shared["verdict"]["sentences"])


def test_labels_are_the_same_in_all_reports():
    one, other = (anonymous(gather(rows(sessions))) for sessions in (12, 5))
    assert [found.session for found in one.sessions[:5]] == [found.session for found in other.sessions]


def test_no_shared_output_holds_a_secret(tmp_path: Path):
    totals = gather(rows())
    html.write(totals, rows(), tmp_path / "report.html", share=True)
    parquet.write(rows(), tmp_path / "rows.parquet", share=True)
    out = io.StringIO()
    render(anonymous(totals), Console(file=out, width=200))
    (tmp_path / "summary.txt").write_text(out.getvalue())
    (tmp_path / "report.json").write_text(json.dumps(document.to_json(totals, share=True)))
    for table in tmp_path.glob("*.parquet"):
        (tmp_path / f"{table.stem}.txt").write_text(str(pq.read_table(table).to_pylist()))
    files = sorted(tmp_path.iterdir())
    assert len(files) == 7
    for file in files:
        for secret in (SECRET, "/home", "2023-11-14", "user/sessions"):
            assert secret.encode() not in file.read_bytes(), file


def test_what_is_not_shared_does_hold_them():
    # So that the test above could fail.
    assert SECRET in html.page(gather(rows()), rows())
    assert SECRET in json.dumps(document.to_json(gather(rows())))


# ------------------------------------------------------------------ parquet


def test_there_is_a_row_a_session_and_policy(tmp_path: Path):
    path, beside = parquet.write(rows(), tmp_path / "rows.parquet")
    assert beside == tmp_path / "rows-candidates.parquet"
    table = pq.read_table(path)
    assert table.schema.equals(parquet.FIGURES)
    assert table.num_rows == 4 * 14 + 1
    found = table.to_pylist()
    mine = next(one for one in found if one["policy"] == "documented")
    assert mine["net_cost"] == mine["cost"] + mine["recall_cost"]
    assert (mine["removed_dedupe"], mine["removed_masking"], mine["removed_otherwise"]) == (400, 200, 0)
    assert (mine["missed_at_random_tokens"], mine["recalls_old_line"]) == (640, 1)
    assert mine["detected_net_cost"] == mine["detected_cost"] + mine["detected_recall_cost"] == 1104
    assert next(one for one in found if one["policy"] == "none")["detected_net_cost"] is None
    assert mine["started"].isoformat() == "2023-11-14T22:13:20.250000+00:00"
    (bad,) = [one for one in found if one["error"] is not None]
    assert (bad["error"], bad["policy"], bad["bytes"]) == (f"{SECRET}reason", None, 5)


def test_candidates_have_a_row_each(tmp_path: Path):
    _, beside = parquet.write(rows(), tmp_path / "rows.parquet")
    table = pq.read_table(beside)
    assert table.schema.equals(parquet.CANDIDATES)
    assert table.num_rows == 28
    assert table.to_pylist()[1]["state"] == "mid_loop"


@pytest.mark.parametrize("name", ["rows", "rows.pq"])
def test_the_second_file_is_beside_the_first(tmp_path: Path, name: str):
    path, beside = parquet.write([], tmp_path / name)
    assert pq.read_table(path).num_rows == pq.read_table(beside).num_rows == 0
    assert beside.name == ("rows-candidates.parquet" if name == "rows" else "rows-candidates.pq")


def test_many_rows_are_written_in_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(parquet, "BATCH", 7)
    path, _ = parquet.write(rows(), tmp_path / "rows.parquet")
    assert pq.ParquetFile(path).num_row_groups > 3
    assert pq.read_table(path).num_rows == 57
