"""The engine against reading JSON: how much a pass over a session costs, cold, warm and from a file.

Every figure is a ratio to `msgspec.json.decode` of the same lines, or a time per request, measured
turn and turn about in one process. Run: `python benchmarks/engine.py [messages.json]`, where the file
holds a list of pi's messages; without one, an invented session of 4,000 messages is used.
"""

from __future__ import annotations

import copy
import gc
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from sessions import pi_messages, pi_session

import prunewise
from prunewise.stores.pi_session import PiSession

ROUNDS = 21
REQUESTS = 60


def main() -> None:
    messages = json.loads(Path(sys.argv[1]).read_bytes()) if len(sys.argv) > 1 else pi_messages(4000)
    lines = pi_session(messages)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "session.jsonl")
        path.write_bytes(b"\n".join(lines) + b"\n")
        size = path.stat().st_size
        print(f"{len(messages):,} messages, {size / 1e6:.1f} MB; CPU time, median (least) of {ROUNDS}")
        decode = msgspec.json.Decoder().decode
        times = _alternate(
            {
                "decode the lines": lambda: [decode(line) for line in lines],
                "full pass over parsed messages": lambda: prunewise.plan(messages, cwd="/repo"),
                "file to plan": lambda: _file_to_plan(path),
            }
        )
        base = times["decode the lines"]
        for name, found in times.items():
            median, least = statistics.median(found), min(found)
            ratio = f"x{median / statistics.median(base):.2f} (x{least / min(base):.2f})"
            print(f"  {name:32} {median * 1e3:7.1f} ms ({least * 1e3:.1f})  {ratio}")
        _warm(messages)
        _memory(path, size)
    _imports()


def _file_to_plan(path: Path) -> prunewise.Plan:
    session = PiSession.open(path)
    context = session.context()
    return prunewise.plan(
        [one.message for one in context], cwd=session.cwd, store=session, ids=[one.id for one in context]
    )


def _alternate(runs: dict[str, Callable[[], object]]) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(ROUNDS):
        for name, run in runs.items():
            gc.collect()
            start = time.process_time()
            run()
            times[name].append(time.process_time() - start)
    return times


def _warm(messages: list[dict[str, Any]]) -> None:
    """One more answer and its result on a pruner that knows the rest."""
    for kind, again in (("the same objects", lambda given: given), ("fresh equal ones", copy.deepcopy)):
        pruner = prunewise.Pruner("pi", cwd="/repo")
        pruner.project(messages, now=0.0)
        given, times = list(messages), []
        for number in range(REQUESTS if kind == "the same objects" else REQUESTS // 4):
            given = again([*given, *_one_more(number)])
            start = time.process_time()
            pruner.project(given, now=0.0)
            times.append(time.process_time() - start)
        median, least = statistics.median(times) * 1e3, min(times) * 1e3
        print(f"  one more answer, {kind}: {median:.2f} ms median ({least:.2f} least)")


def _one_more(number: int) -> list[dict[str, Any]]:
    call = {
        "type": "toolCall",
        "id": f"more_{number}",
        "name": "bash",
        "arguments": {"command": f"ls {number}"},
    }
    text = [{"type": "text", "text": "x" * 2000}]
    return [
        {"role": "assistant", "content": [call], "stopReason": "toolUse", "timestamp": number},
        {
            "role": "toolResult",
            "toolCallId": call["id"],
            "toolName": "bash",
            "content": text,
            "timestamp": number,
        },
    ]


_PEAK = """
import sys
from prunewise.stores.pi_session import PiSession
import prunewise
def peak():
    # Not getrusage: there a child begins at the size of the process that started it.
    return int(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1])
before = peak()
session = PiSession.open(sys.argv[1])
context = session.context()
pruner = prunewise.Pruner("pi", store=prunewise.stores.memory.Memory("m"), cwd=session.cwd)
pruner.project([one.message for one in context], ids=[one.id for one in context], now=0.0)
print(peak() - before)
"""


def _memory(path: Path, size: int) -> None:
    """Peak memory of a process that opens the file and prunes its messages, beyond its imports."""
    if not Path("/proc/self/status").exists():
        print("  memory: not measured, this system has no /proc")
        return
    grown = (
        int(subprocess.run([sys.executable, "-c", _PEAK, path], check=True, capture_output=True).stdout)
        * 1024
    )
    print(f"  memory: {grown / 1e6:.0f} MB, x{grown / size:.2f} of the file")


def _imports() -> None:
    times: dict[str, list[float]] = {"msgspec": [], "prunewise": []}
    for _ in range(ROUNDS):
        for name, found in times.items():
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run([sys.executable, "-c", f"import {name}"], check=True)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            found.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    median = {name: statistics.median(found) * 1e3 for name, found in times.items()}
    above = median["prunewise"] - median["msgspec"]
    print(f"  import prunewise: {above:.1f} ms above import msgspec ({median['msgspec']:.1f} ms)")


if __name__ == "__main__":
    main()
