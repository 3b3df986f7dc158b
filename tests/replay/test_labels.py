"""The rulers of need against labels by reading, and the script that prints how they agree."""

import importlib.util
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType

import pytest

from prunewise.replay.needs import DETECTOR, UPPER


def _script(root: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("labels", root / "benchmarks" / "labels.py")
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    sys.modules["labels"] = made
    spec.loader.exec_module(made)
    return made


@pytest.fixture(scope="module")
def labels(root: Path) -> ModuleType:
    return _script(root)


Found = tuple[list[Mapping[str, str]], dict[str, tuple[bool, ...]]]


@pytest.fixture(scope="module")
def found(labels: ModuleType, shared: Path) -> Found:
    folder = shared / "corpus"
    rows = labels.read()
    if any(not (folder / row["file"]).is_file() for row in rows):
        pytest.skip(f"needs the labelled sessions in {folder}")
    return rows, labels.verdicts(rows, folder, (DETECTOR, UPPER))


FLOORS: dict[str, tuple[float, float, float, float]] = {
    "set main": (0.90, 0.90, 0.38, 0.97),
    "set holdout": (0.54, 0.86, 0.32, 0.86),
    "set new": (0.56, 0.90, 0.47, 0.90),
    "not set main": (0.54, 0.87, 0.40, 0.87),
    "birth-trim": (0.77, 0.88, 0.30, 0.97),
    "stale": (0.67, 0.85, 0.55, 0.85),
    "superseded": (0.64, 0.83, 0.52, 0.83),
    "failed-input": (0.80, 0.97, 0.80, 0.97),
    "masked": (0.52, 0.97, 0.47, 0.97),
    "alone": (0.60, 0.80, 0.39, 0.80),
    "all": (0.68, 0.88, 0.39, 0.91),
}
SETTLED: dict[str, tuple[float, float, float, float]] = {
    "set main": (0.67, 0.76, 0.32, 0.93),
    "set holdout": (0.61, 0.97, 0.36, 0.97),
    "set new": (0.56, 0.90, 0.47, 0.90),
    "not set main": (0.51, 0.90, 0.39, 0.90),
    "birth-trim": (0.69, 0.79, 0.30, 0.97),
    "superseded": (0.52, 0.80, 0.42, 0.80),
    "masked": (0.70, 0.97, 0.63, 0.97),
    "alone": (0.59, 0.80, 0.39, 0.80),
    "all": (0.57, 0.83, 0.35, 0.91),
}
SECOND: dict[str, tuple[float, float, float, float]] = {
    "set main": (0.56, 0.73, 0.27, 0.92),
    "set holdout": (0.61, 0.97, 0.36, 0.97),
    "birth-trim": (0.69, 0.79, 0.30, 0.97),
    "alone": (0.47, 0.77, 0.30, 0.77),
    "all": (0.52, 0.82, 0.29, 0.94),
}
"""The detector's precision and recall, and those of the upper bound, are at least these: 0.03 below what was
measured, for groups in which at least five outputs were needed."""


@pytest.mark.corpus
@pytest.mark.parametrize(
    ("reader", "name", "floors"),
    [
        (reader, name, floors)
        for reader, table in (("settled", SETTLED), ("first", FLOORS), ("second", SECOND))
        for name, floors in table.items()
    ],
)
def test_rulers_agree_with_readers(
    labels: ModuleType, found: Found, reader: str, name: str, floors: tuple[float, float, float, float]
):
    rows, verdicts = found
    group = dict(labels._groups(rows))[name]
    detector, upper = (
        labels.counts(group, lambda row, at=at: verdicts[row["id"]][at], reader) for at in (0, 1)
    )
    measured = (detector.precision, detector.recall, upper.precision, upper.recall)
    assert all(got >= floor for got, floor in zip(measured, floors, strict=True)), measured


def test_the_third_reader_read_what_two_disagree_on(labels: ModuleType):
    rows = labels.read()
    differ = [row for row in rows if row["second"] and row["first"] != row["second"]]
    assert len(differ) == 38
    assert all(row["third"] for row in differ)
    many, same, kappa = labels.agreement([row for row in rows if row["set"] == "new"], "third")
    assert (many, round(same, 2), round(kappa, 2)) == (66, 0.86, 0.74)


def test_readers_agree_as_far_as_is_said(labels: ModuleType):
    many, same, kappa = labels.agreement(labels.read())
    assert (many, round(same, 2), round(kappa, 2)) == (258, 0.85, 0.60)


@pytest.mark.corpus
def test_what_was_not_needed_of_duplicates_is_not_found(found: Found):
    rows, verdicts = found
    assert not any(verdicts[row["id"]][1] for row in rows if row["hidden_kind"] == "duplicate")


def test_the_rows_are_well_formed(labels: ModuleType):
    rows = labels.read()
    assert len({row["id"] for row in rows}) == len(rows)
    targets = {
        (row["file"], row["epoch"], row["message"], row["part"], row["hidden_at_call"]) for row in rows
    }
    assert len(targets) == len(rows)
    assert {row["first"] for row in rows} == {"needed", "partly", "not"}
    assert {row["second"] for row in rows} <= {"needed", "partly", "not", ""}


# ---- the script's own figures


def _labelled(*pairs: str) -> list[dict[str, str]]:
    words = {"n": "needed", "p": "partly", "x": "not", "-": ""}
    return [{"id": str(at), "first": words[a], "second": words[b]} for at, (a, b) in enumerate(pairs)]


@pytest.mark.parametrize(
    ("pairs", "expected"),
    [
        (["nn", "xx", "pp"], (3, 1.0, 1.0)),
        (["nx", "xn"], (2, 0.0, -1.0)),
        (["nn", "nx", "xn", "xx"], (4, 0.5, 0.0)),
        (["nn", "n-", "xx", "-x"], (2, 1.0, 1.0)),
        (["nn", "nn", "xx", "xx", "xx", "nx"], (6, 5 / 6, 2 / 3)),
    ],
)
def test_agreement(labels: ModuleType, pairs: Sequence[str], expected: tuple[int, float, float]):
    assert labels.agreement(_labelled(*pairs)) == pytest.approx(expected)


def test_counts(labels: ModuleType):
    rows = _labelled("n-", "n-", "p-", "x-", "x-", "--")
    found = labels.counts(rows, lambda row: row["id"] in "0245")
    assert found == (1, 2, 1)
    assert (found.precision, found.recall, found.f) == pytest.approx((1 / 3, 1 / 2, 0.4))


def test_intervals_of_shares(labels: ModuleType):
    # Agresti and Coull 1998, for 0 and 10 of 10.
    assert labels.wilson(0, 10) == pytest.approx((0, 0.2775), abs=1e-4)
    assert labels.wilson(10, 10) == pytest.approx((0.7225, 1), abs=1e-4)
    assert labels.wilson(5, 10) == pytest.approx((0.2366, 0.7634), abs=1e-4)
