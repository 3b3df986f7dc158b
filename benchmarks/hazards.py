"""How likely outputs are needed again, by their sort and age: what the priced policy's hazards rest on.

An output counts as needed later where the detector finds a need of which it is the newest source.

Run: `python benchmarks/hazards.py PATHS...`
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from prunewise.priced.hazards import HAZARDS, Hazard
from prunewise.recording import Epoch, Recording
from prunewise.replay.needs import DETECTOR, Need, Ruler, need_events
from prunewise.settings import DEFAULTS
from prunewise.strategies.sorting import sort_of
from prunewise.tokens import text_tokens
from prunewise.transcript import Transcript

LATER = Ruler("later", {kind: one for kind, one in DETECTOR.weights.items() if kind != "line-number"})
"""The detector without the numbers of lines, which count soon after a cut only."""
AGES = (3, 6, 12, 24, 48)
"""In LLM calls."""
FEWEST = 50
"""With fewer observations a hazard stays as it is."""


class Observed(msgspec.Struct, frozen=True):
    """One output: how long it was there, and when it was needed for the last time."""

    repository: str
    sort: str
    calls: int
    """The LLM calls of its epoch from its first one on."""
    last: int
    """The age at which it was needed last; -1 for never."""


def observed(recordings: Iterable[tuple[str, Recording]]) -> list[Observed]:
    """All outputs of some sessions that are large enough to be cut."""
    return [
        one
        for name, recording in recordings
        for epoch in recording.epochs
        for one in _of_epoch(name.partition("__")[0], recording, epoch)
    ]


def _of_epoch(repository: str, recording: Recording, epoch: Epoch) -> Iterable[Observed]:
    transcript = Transcript(cwd=recording.cwd, vocabulary=recording.vocabulary)
    transcript.extend(epoch.messages)
    needs: dict[tuple[int, int], list[Need]] = defaultdict(list)
    for need in need_events(epoch, recording.vocabulary, cwd=recording.cwd):
        if LATER.finds(need):
            needs[need.newest.position, need.newest.part].append(need)
    priced = DEFAULTS.priced
    for exchange in transcript.exchanges:
        if text_tokens(exchange.result.text) < priced.min_tokens:
            continue
        born = transcript.calls_before[exchange.result_position]
        found = needs.get((exchange.result_position, exchange.result_part), ())
        last = max((need.call for need in found), default=born - 1)
        yield Observed(repository, sort_of(exchange, transcript), len(epoch.calls) - born, last - born)


def shares(found: Sequence[Observed]) -> dict[str, list[tuple[int, int]]]:
    """By sort and age: how many outputs were there at that age, and how many were needed then or later."""
    table: dict[str, list[tuple[int, int]]] = {}
    for sort in sorted({one.sort for one in found}):
        mine = [one for one in found if one.sort == sort]
        table[sort] = [
            (sum(one.calls > age for one in mine), sum(one.calls > age and one.last >= age for one in mine))
            for age in AGES
        ]
    return table


def refitted(found: Sequence[Observed], counts: Callable[[str], bool]) -> Mapping[str, Hazard]:
    """The hazards with their level fitted to the repositories that count; their shape stays."""
    made = dict(HAZARDS)
    for sort, row in shares([one for one in found if counts(one.repository)]).items():
        expected = sum(there * HAZARDS[sort].at(age) for age, (there, _) in zip(AGES, row, strict=True))
        if sum(there for there, _ in row) >= FEWEST:
            made[sort] = HAZARDS[sort].times((sum(needed for _, needed in row) + 2) / (expected + 2))
    return made


def main() -> None:
    """Print what was observed, beside what is assumed."""
    from priced import recordings

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("paths", nargs="*")
    paths = parser.parse_args().paths
    if not paths:
        print("needs recorded sessions: python benchmarks/hazards.py PATHS")
        return
    found = observed(recordings(paths))
    print("| sort | " + " | ".join(f"at {age} calls" for age in AGES) + " |")
    print("|---|" + "---|" * len(AGES))
    for sort, row in shares(found).items():
        cells = [
            f"{needed} of {there} ({100 * needed / max(1, there):.1f}%; {100 * HAZARDS[sort].at(age):.1f}%)"
            for age, (there, needed) in zip(AGES, row, strict=True)
        ]
        print(f"| {sort} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
