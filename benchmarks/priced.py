"""What policies save on recorded sessions at fixed prices, and lose: the table of the priced policy.

Sessions of 20 and more LLM calls, forks counted once, those whose bill is off from recorded usage left out.
Each policy runs at each price point with these prices, and is billed at them: input cost saved, recalls and
what holding them costs charged, against no pruning; once by the upper bound of need, and once by the
detector (docs/explanation/information-loss.md). `ceiling` knows the future. Intervals are bootstraps over
source repositories (the file's name before `__`), then over their sessions.

Run: `python benchmarks/priced.py [--lookback] [--grid] [--held-out] [--refit] [--tier N]
[--policies A,B] [--points "R,W R,W"] [--jobs N] PATHS...`

`--grid`: the safety targets' prices, priced only.
`--held-out`: for each repository the settings that do best on all others, counted on it alone.
`--refit`: each repository under hazards whose level was fitted to all others (benchmarks/hazards.py).
`--tier`: all prices are twice as high above so many tokens; priced with its credit for tiers, and without.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
import sys
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import PurePath

import msgspec
from hazards import observed, refitted

from prunewise.gates.priced import Cut, Outlook, Piece, choose
from prunewise.priced.hazards import HAZARDS, Hazard
from prunewise.prices import Override, PriceBook, Prices, Rates, Tier
from prunewise.recording import Recording
from prunewise.replay import ceiling, corpus, policies, session
from prunewise.replay.bill import check, lookback_bill, open_account, stretches, suffix_bill
from prunewise.replay.calibrate import with_priced
from prunewise.replay.loss import summed
from prunewise.replay.needs import DETECTOR, UPPER
from prunewise.replay.optimum import optimum
from prunewise.replay.policies import POLICIES, Policy, of_settings
from prunewise.settings import DEFAULTS, Priced

POINTS = ((0.1, 1.25), (0.05, 1.25), (0.025, 1.25), (0.1, 2.0), (0.25, 1.0), (0.5, 1.0))
GRID = tuple((r, w) for w in (1.0, 1.25, 2.0) for r in (0.02, 0.05, 0.1, 0.25, 0.5, 1.0))
WITHOUT_CREDIT = "no credit"
NAMES = ("documented", "both", "langchain", "clear-tool-uses", "ski", "priced")
RULERS = (UPPER, DETECTOR)
LEAST_CALLS = 20
RESAMPLES = 1000


class Book(msgspec.Struct):
    """The price list with fixed ratios."""

    book: PriceBook
    lookback: bool
    tier: int | None = None
    """Above so many tokens every price is twice as high; None: the model's own tiers."""
    known: dict[tuple[str, str], Prices] = {}

    def prices_for(self, model: str, provider: str = "", when: float | None = None) -> Prices:  # noqa: ARG002
        """As the price book's; asked once a model."""
        found = self.known.get((model, provider))
        if found is None:
            found = self.book.prices_for(model, provider)
            if not self.lookback:
                rules = msgspec.structs.replace(found.rules, lookback=None, style="automatic")
                found = msgspec.structs.replace(found, rules=rules)
            if self.tier is not None:
                twice = Rates(*(2 * rate for rate in msgspec.structs.astuple(found.rates)))
                found = msgspec.structs.replace(found, tiers=(Tier(self.tier, twice),))
            self.known[model, provider] = found
        return found


def _uncredited(pieces: Sequence[Piece], outlook: Outlook, rewritten: Callable[[int], float]) -> Cut:
    """The gate of `priced`, blind to cheaper tiers."""
    return choose(pieces, msgspec.structs.replace(outlook, cheaper=()), rewritten)


def policy_of(name: str) -> Policy:
    """A policy of the replay, or `priced` without its credit for tiers."""
    if name != WITHOUT_CREDIT:
        return POLICIES[name]
    priced = with_priced(DEFAULTS.priced)
    return policies._engine_policy(name, name, priced, _uncredited)  # noqa: SLF001


class Row(msgspec.Struct):
    """One session under one policy at one price point by one ruler."""

    repository: str
    client: str
    point: tuple[float, float]
    policy: str
    ruler: str
    base: float
    saved: float
    """Net: recalls charged."""
    calls: int = 0
    breaks: int = 0
    recalls: int = 0
    blocks: int = 0
    tokens: int = 0
    own: float = math.nan
    """What the best schedule for the same candidates saves, recalls not charged."""
    gross: float = 0.0
    setting: str = ""


def rows_of(
    item: tuple[str, Recording], *, names: Sequence[str], points: Sequence[tuple[float, float]],
    lookback: bool, own: bool, settings: Sequence[Priced] = (),
    hazards: Mapping[str, Mapping[str, Hazard]] = {}, tier: int | None = None,
) -> list[Row]:  # fmt: skip
    """All rows of one session."""
    name, recording = item
    repository, client = name.partition("__")[0], recording.format
    HAZARDS.update(hazards.get(repository, {}))
    bill_of = lookback_bill if lookback else suffix_bill
    found: list[Row] = []
    for point in points:
        read, write = point
        book = Book(PriceBook(Override(read=read, write=write, write_1h=max(write, 1.0))), lookback, tier)
        replay = session._Replay(recording, session.Question((), with_loss=True, prices=book))  # noqa: SLF001
        base = bill_of(replay.account).total
        tried = [of_settings(repr(priced), with_priced(priced), "tried") for priced in settings]
        for ruler in RULERS:
            supply = [
                ceiling.candidates(epoch, kept, ruler)
                for epoch, kept in zip(recording.epochs, replay.needs, strict=True)
            ]
            best = optimum(replay.account, supply)
            found.append(Row(repository, client, point, "ceiling", ruler.name, best.baseline, best.saving))
            for policy in (*map(policy_of, names), *tried):
                cuts, lost = replay.run(policy, ruler)
                bill = bill_of(replay.account, session.billed(cuts))
                tally = summed(lost)
                row = Row(
                    repository,
                    client,
                    point,
                    policy.name,
                    ruler.name,
                    base,
                    base - bill.total - replay.recall_cost(lost, bill),
                    recording.llm_calls,
                    bill.breaks,
                    sum(tally.recalls.values()),
                    tally.blocks,
                    tally.tokens,
                    gross=base - bill.total,
                )
                if policy in tried:
                    row.policy, row.setting = "tried", policy.name
                elif own and policy.name == "priced":
                    row.own = replay.optimum(policy).saving
                found.append(row)
    return found


def recordings(paths: Sequence[str]) -> list[tuple[str, Recording]]:
    """The sessions that count."""
    found: list[tuple[str, Recording]] = []
    seen: set[str] = set()
    for source in corpus.find(paths).sources:
        try:
            loaded = list(corpus.load(source))
        except Exception as error:  # noqa: BLE001
            print(f"left out: {source.name}: {error}", file=sys.stderr)
            continue
        for recording in loaded:
            lineage = session.lineage_of(recording)
            if recording.llm_calls < LEAST_CALLS or lineage in seen:
                continue
            account = open_account(stretches(recording))
            checked = check(account)
            if checked is not None and checked.excluded:
                continue
            seen.add(lineage)
            found.append((PurePath(source.name).name, recording))
    return found


def interval(rows: Sequence[Row]) -> tuple[float, float]:
    """90% of resamples: repositories are drawn, then sessions of each."""
    draw = random.Random(0)
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        groups[row.repository].append(row)
    shares: list[float] = []
    for _ in range(RESAMPLES):
        taken = [
            row
            for name in draw.choices(sorted(groups), k=len(groups))
            for row in draw.choices(groups[name], k=len(groups[name]))
        ]
        shares.append(share(taken))
    shares.sort()
    return shares[RESAMPLES // 20], shares[-RESAMPLES // 20]


def share(rows: Sequence[Row]) -> float:
    """Saved, in percent of the cost without pruning."""
    return 100 * sum(row.saved for row in rows) / sum(row.base for row in rows)


def table(rows: Sequence[Row], names: Sequence[str], points: Sequence[tuple[float, float]]) -> None:
    """Print the table as Markdown."""
    print(
        "| policy | need by | r, w | net saved, % (90% interval) | of ceiling | median owner, % | "
        "worst, p5 session, % | losers | breaks / 100 calls | recalls / 100 blocks | of own optimum |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for policy in (*names, "ceiling"):
        for ruler in RULERS:
            for point in points:
                here = [row for row in rows if row.point == point and row.ruler == ruler.name]
                mine = [row for row in here if row.policy == policy]
                top = share([row for row in here if row.policy == "ceiling"])
                low, high = interval(mine)
                each = sorted(100 * row.saved / row.base for row in mine)
                cells = [
                    policy,
                    ruler.name,
                    f"{point[0]:g}, {point[1]:g}",
                    f"{share(mine):.1f} ({low:.1f} to {high:.1f})",
                    f"{100 * share(mine) / top:.0f}%",
                    f"{statistics.median(by(mine, 'repository').values()):.1f}",
                    f"{each[0]:.1f}, {each[len(each) // 20]:.1f}",
                    f"{sum(one < -0.05 for one in each)} of {len(each)}",
                    *(["", "", ""] if policy == "ceiling" else _counts(mine)),
                ]
                print(f"| {' | '.join(cells)} |", flush=True)
    for what in ("client", "repository"):
        print(f"\nNet saved by {what}, %, by the upper bound at the first price point, and by the detector:")
        for policy in names:
            low, high = (
                by([r for r in rows if (r.policy, r.ruler, r.point) == (policy, one.name, points[0])], what)
                for one in (UPPER, DETECTOR)
            )
            print(f"- {policy}: " + ", ".join(f"{name} {low[name]:.1f}, {high[name]:.1f}" for name in low))


def _counts(mine: Sequence[Row]) -> list[str]:
    calls, blocks = sum(row.calls for row in mine), max(1, sum(row.blocks for row in mine))
    own = sum(row.own for row in mine)
    return [
        f"{100 * sum(row.breaks for row in mine) / calls:.1f}",
        f"{100 * sum(row.recalls for row in mine) / blocks:.1f}",
        "" if math.isnan(own) else f"{100 * sum(row.gross for row in mine) / own:.0f}%",
    ]


def by(rows: Sequence[Row], what: str) -> dict[str, float]:
    """The share that is saved for each repository or client, in percent."""
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        groups[getattr(row, what)].append(row)
    return {name: share(groups[name]) for name in sorted(groups)}


TRIED = (
    {},
    {"recent_calls": 2},
    {"recent_calls": 6},
    {"patience": 0.5},
    {"patience": 1.0},
    {"caution": 0.5},
    {"caution": 2.0},
    {"stake": 0.01},
    {"stake": 0.04},
)
"""The settings from which `--held-out` chooses."""
FLOOR = -0.02


def held_out(rows: Sequence[Row], points: Sequence[tuple[float, float]]) -> None:
    """Print what settings bring, by the upper bound, that were chosen at each price point on the other
    repositories alone.
    """
    repositories = sorted({row.repository for row in rows})
    print("| r, w | of ceiling | worst session, % | chosen |")
    print("|---|---|---|---|")
    for point in points:
        here = [row for row in rows if row.point == point and row.ruler == UPPER.name]
        tried = [row for row in here if row.policy == "tried"]
        counted: list[Row] = []
        chosen: list[str] = []
        for name in repositories:
            best = _best([row for row in tried if row.repository != name])
            chosen.append(best)
            counted += [row for row in tried if row.repository == name and row.setting == best]
        top = share([row for row in here if row.policy == "ceiling"])
        worst = min(100 * row.saved / row.base for row in counted)
        names = [repr(msgspec.structs.replace(DEFAULTS.priced, **changed)) for changed in TRIED]
        kinds = sorted({str(TRIED[names.index(one)]) for one in chosen})
        of_ceiling = 100 * share(counted) / top
        print(f"| {point[0]:g}, {point[1]:g} | {of_ceiling:.0f}% | {worst:.1f} | {', '.join(kinds)} |")


def _best(tried: Sequence[Row]) -> str:
    """The settings that save most of those under which no session loses more than the floor."""

    def merit(setting: str) -> tuple[bool, float]:
        mine = [row for row in tried if row.setting == setting]
        return min(row.saved / row.base for row in mine) >= FLOOR, share(mine)

    return max(sorted({row.setting for row in tried}), key=merit)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("paths", nargs="*")
    parser.add_argument("--lookback", action="store_true", help="bill with providers' lookback")
    parser.add_argument("--grid", action="store_true", help="the prices of the safety targets, priced only")
    parser.add_argument("--held-out", action="store_true", help="choose settings on the other repositories")
    parser.add_argument("--refit", action="store_true", help="fit hazards on the other repositories")
    parser.add_argument("--tier", type=int, help="prices are twice as high above so many tokens")
    parser.add_argument("--own", action="store_true", help="also the optimum for priced's own candidates")
    parser.add_argument("--policies", help="these alone, with commas between")
    parser.add_argument("--points", help="these prices alone: 0.1,1.25 0.5,1 in one argument")
    parser.add_argument("--jobs", type=int, default=1)
    asked = parser.parse_args()
    if not asked.paths:
        print("needs recorded sessions: python benchmarks/priced.py PATHS")
        return
    points = GRID if asked.grid else POINTS
    alone = asked.grid or asked.refit
    names = () if asked.held_out else ("priced",) if alone else NAMES
    names = names if asked.tier is None else (WITHOUT_CREDIT, "priced")
    tried = [msgspec.structs.replace(DEFAULTS.priced, **changed) for changed in TRIED]
    if asked.policies:
        names = tuple(asked.policies.split(","))
    if asked.points:
        points = tuple((float(r), float(w)) for r, w in (one.split(",") for one in asked.points.split()))
    found = recordings(asked.paths)
    repositories = {name.partition("__")[0] for name, _ in found} if asked.refit else set[str]()
    seen = observed(found) if asked.refit else []
    hazards = {one: refitted(seen, lambda other, one=one: other != one) for one in repositories}
    run = partial(
        rows_of,
        names=names,
        points=points,
        lookback=asked.lookback,
        own=asked.own,
        settings=tried if asked.held_out else (),
        hazards=hazards,
        tier=asked.tier,
    )
    if asked.jobs > 1:
        with ProcessPoolExecutor(asked.jobs) as pool:
            rows = [row for rows in pool.map(run, found) for row in rows]
    else:
        rows = [row for item in found for row in run(item)]
    calls = sum(recording.llm_calls for _, recording in found)
    print(f"{len(found)} sessions, {calls:,} LLM calls; {'with' if asked.lookback else 'without'} lookback\n")
    if asked.held_out:
        held_out(rows, points)
    else:
        table(rows, names, points)


if __name__ == "__main__":
    main()
