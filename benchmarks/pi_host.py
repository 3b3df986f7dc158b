"""What pruning adds to each LLM call in the real pi: time, memory, and the engine's start.

Runs pi in RPC mode on made sessions of 1 MB and 10 MB, against the tests' scripted model. Two probes,
extensions of pi loaded before and after ours, take the time and the CPU time of pi's thread. pi is the
one that `make test` installs. On a busy machine the CPU times say more.
"""

import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

import psutil

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.e2e.model_server import ModelServer
from tests.e2e.pi_agent import PI, Pi

CALLS = 20
PROBE = """
import { appendFileSync } from "node:fs";
export default function (pi) {
	pi.on("context", () => {
		const cpu = process.threadCpuUsage();
		appendFileSync(%s, `${performance.now()} ${(cpu.user + cpu.system) / 1000}\\n`);
	});
}
"""
USAGE = {"input": 10, "output": 10, "cacheRead": 1000, "cacheWrite": 0, "totalTokens": 1020}
COST = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0}


def make_session(path: Path, cwd: Path, messages: int) -> None:
    """A session of reads and commands with 8,000 characters each; every other read repeats an older one."""
    stamp = "2026-01-01T00:00:00.000Z"
    lines = [{"type": "session", "version": 3, "id": "bench", "timestamp": stamp, "cwd": str(cwd)}]
    said: list[dict[str, object]] = []
    for number in range(messages // 2):
        if number % 20 == 0:
            said.append({"role": "user", "content": [{"type": "text", "text": f"Question {number}"}]})
        tool, arguments = ("bash", {"command": f"make {number}"})
        if number % 2:
            tool, arguments = ("read", {"path": f"file{number % 100}.txt"})
        call = {"type": "toolCall", "id": f"old_{number}", "name": tool, "arguments": arguments}
        model = {"api": "anthropic-messages", "provider": "anthropic-mock", "model": "model"}
        usage = {**USAGE, "cost": COST}
        answer = {"role": "assistant", "content": [call], **model, "usage": usage, "stopReason": "toolUse"}
        text = (f"{number}: " + "lorem ipsum dolor sit amet\n" * 400)[:8000]
        result = {"role": "toolResult", "toolCallId": f"old_{number}", "toolName": tool, "isError": False}
        said += [answer, {**result, "content": [{"type": "text", "text": text}]}]
    parent = None
    for number, message in enumerate(said[:messages]):
        entry = {"type": "message", "id": f"{number:08x}", "parentId": parent, "timestamp": stamp}
        lines.append({**entry, "message": {**message, "timestamp": 1767225600000 + number}})
        parent = entry["id"]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def measure(messages: int, folder: Path, *, install: bool) -> None:
    """One session: the time between the probes, with the extension or without."""
    with ModelServer() as model:
        pi = Pi(folder, model.port, window=5_000_000)
        (pi.agent / "extensions").mkdir()
        if install:
            pi.install()
        logs = [folder / "before.log", folder / "behind.log"]
        for name, log in zip(("aaa.ts", "zzz.ts"), logs, strict=True):
            (pi.agent / "extensions" / name).write_text(PROBE % json.dumps(str(log)))
        session = folder / "session.jsonl"
        make_session(session, pi.project, messages)
        size = session.stat().st_size
        model.script = [[("bash", {"command": "true"})] for _ in range(CALLS)]
        memory = private = 0
        with pi.rpc("--session", str(session)) as rpc:
            rpc.prompt("Go.")
            for child in psutil.Process(rpc.process.pid).children(recursive=True):
                if "prunewise.hosts.pi" in child.cmdline():
                    held = child.memory_full_info()
                    memory, private = held.rss, held.uss
        rows = [[tuple(map(float, line.split())) for line in log.read_text().splitlines()] for log in logs]
        spans = [(end[0] - start[0], end[1] - start[1]) for start, end in zip(*rows, strict=True)]
        wall, cpu = (statistics.median(one) for one in zip(*spans[2:], strict=True))
        pruned = sum(text.startswith("[prunewise") for text in model.asked[-1].results.values())
    what = "without the extension"
    if install:
        held = f"{memory / 1e6:.0f} MB, {private / 1e6:.0f} MB of it shared with no other process"
        what = f"{pruned} outputs pruned, engine {held}"
    print(
        f"{size / 1e6:5.1f} MB, {messages} messages: median {wall:.2f} ms per LLM call "
        f"({cpu:.2f} ms of pi's thread), the first {spans[0][0]:.0f} ms; {what}"
    )


def start() -> None:
    """From the start of an engine process to its first answer."""
    hello = {
        "protocol": 1,
        "cwd": "/",
        "header": {"type": "session", "version": 3, "id": "x"},
    }
    line = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "hello", "params": hello}).encode() + b"\n"
    took: list[float] = []
    for _ in range(10):
        command = [sys.executable, "-P", "-u", "-m", "prunewise.hosts.pi"]
        began = time.perf_counter()
        with psutil.Popen(command, stdin=-1, stdout=-1) as process:
            process.stdin.write(line)
            process.stdin.flush()
            process.stdout.readline()
            took.append(time.perf_counter() - began)
            process.stdin.close()
    print(f"engine start to first answer: median {statistics.median(took):.2f} s of {len(took)}")


def main() -> None:
    """Print the figures."""
    if not PI.exists():
        print("needs pi: `make test` installs it")
        return
    start()
    for messages in (248, 2480):
        for install in (False, True):
            with tempfile.TemporaryDirectory() as folder:
                measure(messages, Path(folder), install=install)


if __name__ == "__main__":
    main()
