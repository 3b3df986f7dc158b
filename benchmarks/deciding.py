"""How long a decision takes: the engine over an invented session of 4,000 messages, request by request.

Run: `python benchmarks/deciding.py`
"""

from __future__ import annotations

import statistics
import time

import msgspec
from sessions import pi_messages

from prunewise import ledger
from prunewise.engine import Moment, Rules
from prunewise.formats.pi import PI
from prunewise.ledger import Ledger
from prunewise.priced import engine_for
from prunewise.settings import DEFAULTS, PolicyName

LAST = 300


def main() -> None:
    """Measure both policies."""
    for policy in ("documented", "priced"):
        times, decisions = measure(policy)
        median, last = statistics.median(times) * 1e3, times[-LAST:]
        recent = statistics.median(last) * 1e3
        print(f"{policy}: {len(times)} requests, {decisions} decisions; processor time in milliseconds:")
        print(f"  median {median:.2f}, over the last {LAST} {recent:.2f}, most there {max(last) * 1e3:.1f}")


def measure(policy: PolicyName) -> tuple[list[float], int]:
    """The time of each decision, in seconds, and how many parts were pruned in the end."""
    messages = [PI.read(native, f"m{index}") for index, native in enumerate(pi_messages(4000))]
    engine = engine_for(
        Rules(msgspec.structs.replace(DEFAULTS, policy=policy)), lambda _message, _call: "#1000"
    )
    book = ledger.EMPTY
    times: list[float] = []
    read = 0
    for position, message in enumerate(messages):
        if message.role != "assistant" or not position:
            continue
        begun = time.process_time()
        engine.extend(messages[read:position])
        verdict = engine.verdict(Moment(10.0))
        times.append(time.process_time() - begun)
        read = position
        standing = dict(book.standing)
        for one in engine.accepted(verdict):
            standing[one.target] = ledger.decide(
                one.strategy, one.call, one.kind, reason=one.reason, placeholder=one.marker, created_at=""
            )
        if len(standing) > len(book.standing):
            book = Ledger(standing, frozenset(), tuple(standing.values()))
            engine.follow(book)
    return times, len(book.standing)


if __name__ == "__main__":
    main()
