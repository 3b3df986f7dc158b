"""Run many random histories by the rules of the house: `python -m tests.fuzz --histories 50000 --seed 1`."""

import argparse
import os
import sys
import warnings
from concurrent.futures import ProcessPoolExecutor

from rich.progress import track
from tests.fuzz.histories import BrokenRuleError, check

_CHUNK = 100


def _broken(start: int, end: int) -> tuple[list[str], int, int, int]:
    """What breaks a rule in these histories, and how many requests, decisions and masks there were."""
    warnings.simplefilter("ignore")
    broken: list[str] = []
    requests = decisions = masked = 0
    for seed in range(start, end):
        try:
            done = check(seed)
        except BrokenRuleError as error:
            broken.append(str(error))
            continue
        requests, decisions, masked = (
            requests + done.requests,
            decisions + done.decisions,
            masked + done.masked,
        )
    return broken, requests, decisions, masked


def main() -> int:
    """Run as many histories as are asked for; 1 where one breaks a rule."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--histories", type=int, default=1_000, help="how many (default: %(default)s)")
    parser.add_argument(
        "--seed", type=int, default=0, help="the seed of the first one (default: %(default)s)"
    )
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, help="processes (default: %(default)s)"
    )
    asked = parser.parse_args()
    starts = range(asked.seed, asked.seed + asked.histories, _CHUNK)
    ends = [min(start + _CHUNK, asked.seed + asked.histories) for start in starts]
    broken: list[str] = []
    totals = [0, 0, 0]
    with ProcessPoolExecutor(asked.jobs) as pool:
        done = pool.map(_broken, starts, ends)
        for found, *counts in track(done, "histories", total=len(starts), disable=not sys.stderr.isatty()):
            for line in found:
                sys.stdout.write(line[:400] + "\n")
            broken += found
            totals = [total + count for total, count in zip(totals, counts, strict=True)]
    sys.stdout.write(
        f"{asked.histories:,} histories, {totals[0]:,} requests, {totals[1]:,} decisions, "
        f"{totals[2]:,} outputs masked: {len(broken)} broken\n"
    )
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
