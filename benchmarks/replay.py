"""The replay: how fast sessions are read and replayed, how time grows with a session, and how much
memory many sessions take.

Times are CPU times of one process, but for those that say otherwise. Run: `python benchmarks/replay.py
[FOLDER]`, where the folder holds recorded sessions; without one, `../shared/corpus` is taken, and where
that is not there, invented sessions of pi. PRUNEWISE_SESSIONS says how many invented sessions the last
part replays (20,000; 1 GB of them are written to a temporary folder).
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import psutil
from sessions import pi_messages, pi_session

from prunewise.recording import LLMCall
from prunewise.replay.bill import Stretch, open_account
from prunewise.replay.corpus import Source, find
from prunewise.replay.journal import decode
from prunewise.replay.optimum import Candidate, optimum
from prunewise.replay.results import SessionRow
from prunewise.replay.runner import Inquiry, choose, replay_file, run

ROUNDS = 5
SESSIONS = int(os.environ.get("PRUNEWISE_SESSIONS", "20000"))
BYTES = 50_000
"""Of an invented session, about."""
TEMPLATES = 100
HARNESS = Inquiry(with_loss=False)
FOUR = Inquiry(tuple(choose(name) for name in ("none", "documented", "two-level", "both")), with_optimal=True)


def main() -> None:
    """Measure everything once."""
    with tempfile.TemporaryDirectory() as folder:
        sources = _sources(Path(folder))
        size = sum(source.size for source in sources)
        print(f"{len(sources):,} files, {size / 1e6:.1f} MB; least of {ROUNDS} where not said otherwise")
        replay_file(sources[0], FOUR)  # the price list is read once
        seconds = _least(lambda: [replay_file(source, HARNESS) for source in sources])
        print(f"  harness, one process: {seconds:.2f} s, {size / 1e6 / seconds:.1f} MB/s")
        _linear(Path(folder))
        start = time.perf_counter()
        rows = list(run(sources, FOUR, jobs=2))
        sessions = sum(isinstance(row, SessionRow) for row in rows)
        seconds = time.perf_counter() - start
        print(
            f"  four policies, loss and optimum, two processes: {seconds:.1f} s on the clock, once;", end=" "
        )
        print(f"{sessions:,} sessions")
    _optimum()
    _many()


def _sources(folder: Path) -> tuple[Source, ...]:
    beside = Path(__file__).resolve().parents[2] / "shared" / "corpus"
    if len(sys.argv) > 1:
        return find([sys.argv[1]]).sources
    if beside.is_dir():
        return find([beside]).sources
    return find([_written(folder / f"{seed}.jsonl", 200 * seed, seed) for seed in range(1, 21)]).sources


def _written(path: Path, messages: int, seed: int) -> Path:
    path.write_bytes(b"\n".join(pi_session(pi_messages(messages, seed))) + b"\n")
    return path


def _least(work: Callable[[], object], rounds: int = ROUNDS) -> float:
    times: list[float] = []
    for _ in range(rounds):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)


def _linear(folder: Path) -> None:
    """Sessions of which each is twice as long as the one before."""
    times: list[float] = []
    for messages in (4000, 8000, 16000):
        (source,) = find([_written(folder / f"long-{messages}.jsonl", messages, 1)]).sources
        times.append(_least(lambda: replay_file(source, HARNESS)))  # noqa: B023 - called at once
        (row,) = decode(replay_file(source, HARNESS)).rows
        assert isinstance(row, SessionRow)
        grown = f", x{times[-1] / times[-2]:.2f}" if len(times) > 1 else ""
        print(f"  harness, {row.llm_calls:,} LLM calls, {source.size / 1e6:.1f} MB: {times[-1]:.2f} s{grown}")


def _optimum() -> None:
    """A session in which each of 150 results may go eight calls later."""
    calls = [LLMCall(2 * n + 1, time=float(n), model="claude-opus-5") for n in range(150)]
    sizes = [float(200 + 7919 * n % 3000) for n in range(300)]
    account = open_account([Stretch(sizes, calls)])
    candidates = [[Candidate(2 * n, sizes[2 * n] * 0.95, n + 8) for n in range(150)]]
    seconds = _least(lambda: optimum(account, candidates))
    print(f"  optimum, 150 LLM calls and 150 candidates: {seconds:.3f} s")


def _many() -> None:
    """Many sessions through the command, and the most memory that all its processes take together."""
    with tempfile.TemporaryDirectory() as folder:
        size = _write_many(Path(folder, "sessions"))
        environment = {**os.environ, "XDG_CACHE_HOME": str(Path(folder, "cache"))}
        start = time.perf_counter()
        process = psutil.Popen(
            [sys.executable, "-m", "prunewise", "benchmark", str(Path(folder, "sessions")), "--jobs", "2"],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        peaks: list[int] = []
        while process.poll() is None:
            peaks.append(_memory(process))
            time.sleep(0.2)
        seconds = time.perf_counter() - start
        assert process.stdout is not None
        assert process.returncode == 0, "the command failed"
        half = statistics.median(peaks)
    print(
        f"  prunewise benchmark, {SESSIONS:,} sessions, {size / 1e6:,.0f} MB, two processes and a parent,",
        end=" ",
    )
    print(f"six policies: {seconds:.0f} s on the clock, once; {size / 1e6 / seconds:.1f} MB/s;", end=" ")
    print(f"memory of all together: {max(peaks) / 1e6:.0f} MB at most, {half / 1e6:.0f} MB in the median")


def _write_many(folder: Path) -> int:
    """Some sessions again and again, each time under another name and with other words."""
    folder.mkdir()
    templates = [b"\n".join(pi_session(pi_messages(28, seed))) + b"\n" for seed in range(TEMPLATES)]
    size = 0
    for number in range(SESSIONS):
        data = templates[number % TEMPLATES].replace(b'"bench"', f'"bench-{number}"'.encode(), 1)
        data = data.replace(b"call_", f"call_{number}_".encode())
        size += Path(folder, f"{number}.jsonl").write_bytes(data)
    return size


def _memory(process: psutil.Process) -> int:
    """Bytes that a process and those it started hold; what they share counts once for each."""
    total = 0
    for one in (process, *process.children(recursive=True)):
        try:
            total += one.memory_info().rss
        except psutil.NoSuchProcess:
            continue
    return total


if __name__ == "__main__":
    main()
