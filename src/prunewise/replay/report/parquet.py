"""Rows as Parquet files: one with a row a session and policy, one beside it with the candidates.

Columns are flat and typed. Rows are written as they come, so any number of them takes little memory.
"""

# pyarrow brings no types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingTypeStubs=false

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from prunewise.replay.needs import KINDS
from prunewise.replay.report.share import Sharing
from prunewise.replay.results import Detected, ErrorRow, Figures, Missed, Row, SessionRow

BATCH = 2000
"""Rows that are written at a time."""
_STRATEGIES = ("dedupe", "error-purge", "superseded-file-ops", "masking")
_TEXT, _WHOLE, _REAL, _FLAG = pa.string(), pa.int64(), pa.float64(), pa.bool_()

_SESSION = {
    "source": _TEXT,
    "session": _TEXT,
    "project": _TEXT,
    "format": _TEXT,
    "model": _TEXT,
    "provider": _TEXT,
    "started": pa.timestamp("ms", tz="UTC"),
    "lineage": _TEXT,
    "bytes": _WHOLE,
    "llm_calls": _WHOLE,
    "copied": _WHOLE,
    "aside": _WHOLE,
    "tool_calls": _WHOLE,
    "tool_errors": _WHOLE,
    "compactions": _WHOLE,
    "warmth": _TEXT,
    "prefix": _REAL,
    "scale": _REAL,
    "baseline_error": _REAL,
    "excluded": _FLAG,
    "price_known": _FLAG,
}
_FIGURES = {
    "policy": _TEXT,
    "cost": _REAL,
    "recall_cost": _REAL,
    "net_cost": _REAL,
    "suffix_cost": _REAL,
    "own_optimum": _REAL,
    "dollars": _REAL,
    "breaks": _WHOLE,
    "peak": _REAL,
    "final": _REAL,
    "compactions_avoided": _WHOLE,
    "calls_gained": _REAL,
    "removed": _WHOLE,
    **{f"removed_{name.replace('-', '_')}": _WHOLE for name in (*_STRATEGIES, "otherwise")},
}
_MISSED = {
    f"{which}_{what}": _WHOLE
    for which in ("missed", "missed_at_random", "missed_oldest_first", "missed_largest_first")
    for what in ("blocks", "tokens", "recalls", "faults")
}
_KINDS = {f"recalls_{kind.replace('-', '_')}": _WHOLE for kind in KINDS}
_DETECTED = {
    "detected_cost": _REAL,
    "detected_recall_cost": _REAL,
    "detected_net_cost": _REAL,
    "detected_recalls": _WHOLE,
}
FIGURES = pa.schema([*(_SESSION | _FIGURES | _MISSED | _KINDS | _DETECTED | {"error": _TEXT}).items()])
"""A row a session and policy; a file that could not be replayed has one with its error."""
CANDIDATES = pa.schema(
    {
        "source": _TEXT,
        "session": _TEXT,
        "excluded": _FLAG,
        "strategy": _TEXT,
        "call": _TEXT,
        "boundary": _WHOLE,
        "state": _TEXT,
        "position": _WHOLE,
        "original_tokens": _WHOLE,
        "tokens_removed": _WHOLE,
        "tail_tokens": _WHOLE,
        "remaining_calls": _WHOLE,
    }.items()
)
"""A row a candidate of the documented harness."""


def write(rows: Iterable[Row], path: Path, share: bool = False) -> tuple[Path, Path]:  # noqa: FBT001, FBT002 - a mode, told by name
    """Write both files, and return where they are: the path, and `-candidates` beside it.

    Args:
        rows: of all files, in any order.
        path: of the first file.
        share: leave out everything that tells whose sessions they are.
    """
    beside = path.with_name(f"{path.stem}-candidates{path.suffix or '.parquet'}")
    sharing = Sharing()
    with (
        pq.ParquetWriter(path, FIGURES, compression="zstd") as figures,
        pq.ParquetWriter(beside, CANDIDATES, compression="zstd") as candidates,
    ):
        first, second = _Batches(figures, FIGURES), _Batches(candidates, CANDIDATES)
        for row in rows:
            shown = sharing.row(row) if share else row
            first.add(_records(shown))
            if isinstance(shown, SessionRow):
                second.add(_candidates(shown))
        first.flush()
        second.flush()
    return path, beside


class _Batches:
    """Records on their way to a file."""

    def __init__(self, writer: pq.ParquetWriter, schema: pa.Schema) -> None:
        self._writer = writer
        self._schema = schema
        self._records: list[dict[str, Any]] = []

    def add(self, records: Iterable[dict[str, Any]]) -> None:
        """Take some, and write when there are enough."""
        self._records += records
        if len(self._records) >= BATCH:
            self.flush()

    def flush(self) -> None:
        """Write what is there."""
        if self._records:
            self._writer.write_table(pa.Table.from_pylist(self._records, schema=self._schema))
            self._records = []


def _records(row: Row) -> Iterator[dict[str, Any]]:
    if isinstance(row, ErrorRow):
        yield {"source": row.source, "bytes": row.bytes, "error": row.reason}
        return
    session = {name: getattr(row, name) for name in _SESSION if name != "started"}
    session["started"] = None if row.started is None else round(row.started * 1000)
    for figures in row.figures:
        yield session | _figures(figures)


def _figures(figures: Figures) -> dict[str, Any]:
    by_strategy = figures.removed_by_strategy
    otherwise = sum(many for name, many in by_strategy.items() if name not in _STRATEGIES)
    return {
        **{name: getattr(figures, name) for name in _FIGURES if not name.startswith("removed_")},
        **{f"removed_{name.replace('-', '_')}": by_strategy.get(name, 0) for name in _STRATEGIES},
        "removed_otherwise": otherwise,
        **_missed("missed", figures.missed),
        **_missed("missed_at_random", figures.missed_at_random),
        **_missed("missed_oldest_first", figures.missed_oldest_first),
        **_missed("missed_largest_first", figures.missed_largest_first),
        **_kinds(figures.missed.recalls_by_kind),
        **_detected(figures.detected),
    }


def _detected(found: Detected | None) -> dict[str, Any]:
    if found is None:
        return {}
    return {
        "detected_cost": found.cost,
        "detected_recall_cost": found.recall_cost,
        "detected_net_cost": found.net_cost,
        "detected_recalls": found.missed.recalls,
    }


def _missed(which: str, missed: Missed) -> dict[str, int]:
    return {f"{which}_{what}": getattr(missed, what) for what in ("blocks", "tokens", "recalls", "faults")}


def _kinds(recalls: Mapping[str, int]) -> dict[str, int]:
    return {f"recalls_{kind.replace('-', '_')}": recalls.get(kind, 0) for kind in KINDS}


def _candidates(row: SessionRow) -> Iterator[dict[str, Any]]:
    about = {"source": row.source, "session": row.session, "excluded": row.excluded}
    own = [name for name in CANDIDATES.names if name not in about]
    for found in row.candidates:
        yield about | {name: getattr(found, name) for name in own}
