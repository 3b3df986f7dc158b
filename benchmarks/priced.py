"""What policies save on recorded sessions at fixed prices, and lose: the table of the priced policy.

Sessions of 20 and more LLM calls, forks counted once, those whose bill is off from recorded usage left out.
Each policy runs at each price point with these prices, and is billed at them: input cost saved, recalls and
what holding them costs charged, against no pruning. `ceiling` and `optimal` know the future. Intervals are
bootstraps over source repositories (the file's name before `__`), then over their sessions.

Run: `python benchmarks/priced.py [--lookback] [--grid] [--blind] [--held-out] [--refit] [--tier N] PATHS...`

`--blind`: needs are never met by what a marker shows. `--grid`: the safety targets' prices, priced only.
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
from prunewise.replay.loss import losses, oldest_first_cuts, summed
from prunewise.replay.needs import need_events
from prunewise.replay.optimum import optimum
from prunewise.replay.policies import POLICIES, Policy, of_settings
from prunewise.settings import DEFAULTS, Priced

POINTS = ((0.1, 1.25), (0.05, 1.25), (0.025, 1.25), (0.1, 2.0), (0.25, 1.0), (0.5, 1.0))
GRID = tuple((r, w) for w in (1.0, 1.25, 2.0) for r in (0.02, 0.05, 0.1, 0.25, 0.5, 1.0))
WITHOUT_CREDIT = "no credit"
NAMES = ("documented", "both", "langchain", "clear-tool-uses", "ski", "priced")
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
    """One session under one policy at one price point."""

    repository: str
    point: tuple[float, float]
    policy: str
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
    oldest_recalls: int = 0
    """What taking out as many tokens from the oldest results, at the same calls, would have recalled."""
    oldest_tokens: int = 0
    setting: str = ""


def rows_of(
    item: tuple[str, Recording], *, names: Sequence[str], points: Sequence[tuple[float, float]],
    lookback: bool, blind: bool, own: bool, settings: Sequence[Priced] = (),
    hazards: Mapping[str, Mapping[str, Hazard]] = {}, tier: int | None = None,
) -> list[Row]:  # fmt: skip
    """All rows of one session."""
    name, recording = item
    repository = name.partition("__")[0]
    HAZARDS.update(hazards.get(repository, {}))
    needs = [need_events(epoch, recording.vocabulary, cwd=recording.cwd) for epoch in recording.epochs]
    found: list[Row] = []
    for point in points:
        read, write = point
        book = Book(PriceBook(Override(read=read, write=write, write_1h=max(write, 1.0))), lookback, tier)
        account = open_account(stretches(recording), book)
        bill_of = lookback_bill if lookback else suffix_bill
        base = bill_of(account).total
        supply = [
            ceiling.candidates(epoch, kept) for epoch, kept in zip(recording.epochs, needs, strict=True)
        ]
        best = optimum(account, supply)
        found.append(Row(repository, point, "ceiling", best.baseline, best.saving))
        asked = session._Replay(recording, session.Question((), with_loss=False, prices=book))  # noqa: SLF001
        asked.needs = needs
        best = asked.optimum(POLICIES["documented"])
        found.append(Row(repository, point, "optimal", best.baseline, best.saving))
        for policy in names:
            cuts = asked.cuts(policy_of(policy).start)
            bill = bill_of(account, session.billed(cuts))
            shown = (
                [tuple(msgspec.structs.replace(cut, marker="") for cut in made) for made in cuts]
                if blind
                else cuts
            )
            lost = [
                losses(epoch, made, kept)
                for epoch, made, kept in zip(recording.epochs, shown, needs, strict=True)
            ]
            tally = summed(lost)
            row = Row(
                repository,
                point,
                policy,
                base,
                base - bill.total - asked.recall_cost(lost, bill),
                recording.llm_calls,
                bill.breaks,
                sum(tally.recalls.values()),
                tally.blocks,
                tally.tokens,
                gross=base - bill.total,
            )
            oldest = summed(
                losses(epoch, oldest_first_cuts(epoch, made), kept)
                for epoch, made, kept in zip(recording.epochs, cuts, needs, strict=True)
            )
            row.oldest_recalls, row.oldest_tokens = sum(oldest.recalls.values()), oldest.tokens
            if own and policy == "priced":
                row.own = asked.optimum(POLICIES[policy]).saving
            found.append(row)
        for priced in settings:
            cuts = asked.cuts(of_settings("tried", with_priced(priced), "tried").start)
            bill = bill_of(account, session.billed(cuts))
            saved = base - bill.total - asked.recall_cost(asked.losses(cuts), bill)
            found.append(Row(repository, point, "tried", base, saved, setting=repr(priced)))
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
    print("| policy | r, w | net saved, % (90% interval) | of ceiling | worst, p5 session, % | "
          "breaks / 100 calls | recalls / 100 blocks | / M tokens | oldest-first / M tokens | "
          "of own optimum |")  # fmt: skip
    print("|---|---|---|---|---|---|---|---|---|---|")
    for policy in (*names, "optimal", "ceiling"):
        for point in points:
            mine = [row for row in rows if row.policy == policy and row.point == point]
            top = share([row for row in rows if row.policy == "ceiling" and row.point == point])
            low, high = interval(mine)
            each = sorted(100 * row.saved / row.base for row in mine)
            line = f"| {policy} | {point[0]:g}, {point[1]:g} | {share(mine):.1f} ({low:.1f} to {high:.1f}) | "
            line += f"{100 * share(mine) / top:.0f}% | {each[0]:.1f}, {each[len(each) // 20]:.1f} | "
            calls = sum(row.calls for row in mine)
            if calls:
                recalls, blocks = sum(row.recalls for row in mine), max(1, sum(row.blocks for row in mine))
                tokens = max(1, sum(row.tokens for row in mine))
                own = sum(row.own for row in mine)
                line += (
                    f"{100 * sum(row.breaks for row in mine) / calls:.1f} | {100 * recalls / blocks:.1f} | "
                )
                line += f"{1e6 * recalls / tokens:.0f} | "
                oldest = max(1, sum(row.oldest_tokens for row in mine))
                line += f"{1e6 * sum(row.oldest_recalls for row in mine) / oldest:.0f} | "
                line += "" if math.isnan(own) else f"{100 * sum(row.gross for row in mine) / own:.0f}%"
            else:
                line += "| | | | "
            print(f"{line} |", flush=True)
    print()
    print("By repository, priced, of the ceiling: " + by_repository(rows, points))


def by_repository(rows: Sequence[Row], points: Sequence[tuple[float, float]]) -> str:
    """How much of the ceiling each repository's sessions reach, the median over the price points."""
    parts: list[str] = []
    for name in sorted({row.repository for row in rows}):
        mine = [row for row in rows if row.repository == name]
        shares = [_of_ceiling([row for row in mine if row.point == point]) for point in points]
        parts.append(f"{name} {100 * statistics.median(shares):.0f}%")
    return ", ".join(parts)


def _of_ceiling(rows: Sequence[Row]) -> float:
    saved = {name: sum(row.saved for row in rows if row.policy == name) for name in ("priced", "ceiling")}
    return saved["priced"] / max(1.0, saved["ceiling"])


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
    """Print what settings bring that were chosen, at each price point, on the other repositories alone."""
    repositories = sorted({row.repository for row in rows})
    print("| r, w | of ceiling | worst session, % | chosen |")
    print("|---|---|---|---|")
    for point in points:
        here = [row for row in rows if row.point == point]
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
    parser.add_argument("--blind", action="store_true", help="nothing that a marker shows meets a need")
    parser.add_argument("--held-out", action="store_true", help="choose settings on the other repositories")
    parser.add_argument("--refit", action="store_true", help="fit hazards on the other repositories")
    parser.add_argument("--tier", type=int, help="prices are twice as high above so many tokens")
    parser.add_argument("--own", action="store_true", help="also the optimum for priced's own candidates")
    parser.add_argument("--policies", help="these alone, with commas between")
    parser.add_argument("--jobs", type=int, default=1)
    asked = parser.parse_args()
    if not asked.paths:
        print("needs recorded sessions: python benchmarks/priced.py PATHS")
        return
    points = GRID if asked.grid else POINTS
    alone = asked.grid or asked.blind or asked.refit
    names = () if asked.held_out else ("priced",) if alone else NAMES
    names = names if asked.tier is None else (WITHOUT_CREDIT, "priced")
    tried = [msgspec.structs.replace(DEFAULTS.priced, **changed) for changed in TRIED]
    if asked.policies:
        names = tuple(asked.policies.split(","))
    found = recordings(asked.paths)
    repositories = {name.partition("__")[0] for name, _ in found} if asked.refit else set[str]()
    seen = observed(found) if asked.refit else []
    hazards = {one: refitted(seen, lambda other, one=one: other != one) for one in repositories}
    run = partial(
        rows_of,
        names=names,
        points=points,
        lookback=asked.lookback,
        blind=asked.blind,
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
