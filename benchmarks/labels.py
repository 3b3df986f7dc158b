"""How well the two rulers of need agree with people who read: precision, recall and agreement.

Each row of tests/replay/labels.tsv points at an output of a recorded session that was hidden from one LLM
call on, and says whether a reader found that the agent needed it afterwards: `needed`, `partly` or `not`.
Here it is hidden but for the lines that stayed in view (`kept`), together with what else the same policy had
hidden by then (`also`; nothing in the set `new`, whose readers took all else to be in view), and each ruler
says whether it was needed. Only `needed` counts as needed. Intervals are Wilson's, of 95%.

Run: `python benchmarks/labels.py FOLDER` with the folder of the recorded sessions
"""

from __future__ import annotations

import argparse
import csv
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from prunewise.formats.detect import read_recording
from prunewise.recording import Epoch
from prunewise.replay.loss import losses
from prunewise.replay.needs import DETECTOR, UPPER, Evidence, Need, Place, Ruler, needs_of
from prunewise.replay.policies import Cut
from prunewise.transcript import TOOL_INPUT, TOOL_RESULT, ToolCall, ToolResult

LABELS = Path(__file__).resolve().parents[1] / "tests" / "replay" / "labels.tsv"
TUNED = "main"
"""The set that the detector was tuned on."""
NEEDED = "needed"

Row = Mapping[str, str]


class Counts(NamedTuple):
    """Found and needed, found alone, needed alone."""

    hits: int
    extra: int
    missed: int

    @property
    def precision(self) -> float:
        """Of what was found, the share that was needed."""
        return _ratio(self.hits, self.hits + self.extra)

    @property
    def recall(self) -> float:
        """Of what was needed, the share that was found."""
        return _ratio(self.hits, self.hits + self.missed)

    @property
    def f(self) -> float:
        """The harmonic mean of both."""
        return _ratio(2 * self.hits, 2 * self.hits + self.extra + self.missed)


def read(path: Path = LABELS) -> list[Row]:
    """The labelled rows. `settled` is the third reader's label, who read what the first two disagree on and a
    part of the set `new`; elsewhere the first one's.
    """
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    return [{**row, "settled": row["third"] or row["first"]} for row in rows]


def verdicts(rows: Iterable[Row], folder: Path, rulers: Sequence[Ruler]) -> dict[str, tuple[bool, ...]]:
    """For each row's id whether each ruler finds that its output was needed."""
    by_file: dict[str, list[Row]] = {}
    for row in rows:
        by_file.setdefault(row["file"], []).append(row)
    found: dict[str, tuple[bool, ...]] = {}
    for name, mine in by_file.items():
        recording = read_recording(name, (folder / name).read_bytes())
        needs = needs_of(recording)
        for row in mine:
            number = int(row["epoch"])
            epoch = recording.epochs[number]
            cut, *others = _cuts(row, epoch)
            later = _needs_of(cut, needs[number])
            found[row["id"]] = tuple(
                bool(losses(epoch, [cut, *others], later, ruler).faults) for ruler in rulers
            )
    return found


def _needs_of(cut: Cut, needs: Iterable[Need]) -> list[Need]:
    """What the answers from a cut on used of what was cut, wherever else it stood."""
    place = Place(cut.position, cut.part, cut.kind)
    evidence: dict[tuple[int, int], list[Evidence]] = {}
    for need in needs:
        used = [one for one in need.evidence if place in one.sources]
        if used and need.call >= cut.call:
            evidence.setdefault((need.call, need.message), []).extend(used)
    return [Need(call, message, place, tuple(used)) for (call, message), used in evidence.items()]


def _cuts(row: Row, epoch: Epoch) -> list[Cut]:
    """That of the row's output, and those of the other outputs that were hidden by then."""
    own = f"{row['message']}.{row['part']}:{row['kept']}"
    return [_cut(where, int(row["hidden_at_call"]), epoch) for where in (own, *row["also"].split())]


def _cut(where: str, call: int, epoch: Epoch) -> Cut:
    """The cut of a part, `position.part:kept`, where `kept` are the lines that stay."""
    place, _, ranges = where.partition(":")
    position, index = map(int, place.split("."))
    part = epoch.messages[position].parts[index]
    assert isinstance(part, ToolResult | ToolCall)
    lines = part.text.split("\n")
    kept = [lines[at] for first, last in _ranges(ranges) for at in range(first, last + 1)]
    marker = "\n".join(["[hidden]", *kept, "[hidden]"])
    kind = TOOL_INPUT if isinstance(part, ToolCall) else TOOL_RESULT
    return Cut(call, position, index, kind, 1000, 10, "hidden", marker)


def _ranges(text: str) -> Iterable[tuple[int, int]]:
    """The first and last number of each range of lines, counted from 0: `0-9,40-40`."""
    for part in text.split(",") if text else ():
        first, _, last = part.partition("-")
        yield int(first), int(last)


def counts(rows: Iterable[Row], finds: Callable[[Row], bool], reader: str = "first") -> Counts:
    """How a ruler's verdicts agree with a reader's labels."""
    pairs = Counter((finds(row), row[reader] == NEEDED) for row in rows if row[reader])
    return Counts(pairs[True, True], pairs[True, False], pairs[False, True])


def agreement(rows: Iterable[Row], other: str = "second") -> tuple[int, float, float]:
    """Rows that the first and another reader labelled, the share on which they agree, and Cohen's kappa."""
    pairs = [(row["first"], row[other]) for row in rows if row["first"] and row[other]]
    if not pairs:
        return 0, math.nan, math.nan
    same = sum(one == other for one, other in pairs) / len(pairs)
    first, second = (Counter(column) for column in zip(*pairs, strict=True))
    chance = sum(first[label] * second[label] for label in first) / len(pairs) ** 2
    return len(pairs), same, _ratio(same - chance, 1 - chance)


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else math.nan


def wilson(hits: int, of: int) -> tuple[float, float]:
    """The 95% interval of a share."""
    if not of:
        return math.nan, math.nan
    z, share = 1.96, hits / of
    middle = (share + z * z / (2 * of)) / (1 + z * z / of)
    half = z / (1 + z * z / of) * math.sqrt(share * (1 - share) / of + z * z / (4 * of * of))
    return max(0.0, middle - half), min(1.0, middle + half)


def _share(hits: int, of: int) -> str:
    if not of:
        return ""
    low, high = wilson(hits, of)
    return f"{hits / of:.2f} [{low:.2f}, {high:.2f}]"


def _groups(rows: Sequence[Row]) -> Iterable[tuple[str, list[Row]]]:
    sets = list(dict.fromkeys(row["set"] for row in rows))
    for name in sets:
        yield f"set {name}", [row for row in rows if row["set"] == name]
    yield f"not set {TUNED}", [row for row in rows if row["set"] != TUNED]
    for kind in dict.fromkeys(row["hidden_kind"] for row in rows):
        yield kind, [row for row in rows if row["hidden_kind"] == kind]
    yield "all", list(rows)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path)
    folder = parser.parse_args().folder
    if folder is None:
        print("needs recorded sessions: python benchmarks/labels.py FOLDER")
        return
    rows = read()
    rulers = (DETECTOR, UPPER)
    found = verdicts(rows, folder, rulers)
    for reader in ("settled", "first", "second"):
        print(f"Labels, {reader}:\n")
        print("| rows | needed, partly, not | detector: precision | recall | F | upper: precision | recall |")
        print("|---|---|---|---|---|---|---|")
        for name, group in _groups([row for row in rows if row[reader]]):
            labels = Counter(row[reader] for row in group)
            cells = [name, ", ".join(str(labels[label]) for label in ("needed", "partly", "not"))]
            for at in (0, 1):
                one = counts(group, lambda row, at=at: found[row["id"]][at], reader)
                cells.append(_share(one.hits, one.hits + one.extra))
                cells.append(_share(one.hits, one.hits + one.missed))
                if at == 0:
                    cells.append("" if math.isnan(one.f) else f"{one.f:.2f}")
            print(f"| {' | '.join(cells)} |")
        print()
    print("Two readers:\n\n| rows | both labelled | agree | kappa |\n|---|---|---|---|")
    for name, group in _groups(rows):
        many, same, kappa = agreement(group)
        if many:
            print(f"| {name} | {many} | {same:.2f} | {'' if math.isnan(kappa) else f'{kappa:.2f}'} |")


if __name__ == "__main__":
    main()
