"""What the tests of the pruner are built with."""

from typing import Any

from tests.build import Native, bash, flat, read, shell, turns, user, write
from tests.histories import SETTINGS

from prunewise import Policy, Pruner
from prunewise.pruner import Projected
from prunewise.stores.memory import Memory

EAGER = SETTINGS["eager"]
HUGE = "a line of a large output\n" * 400
"""10,000 characters, 2,500 tokens."""
MASKING: dict[str, Any] = {"enabled": False}
"""Masking alone: the other document's strategies are off."""


def pruner_of(store: Any = None, data: Any = EAGER, **options: Any) -> Pruner:
    return Pruner("pi", Policy(data), store or Memory("c"), **options)


def placed(done: Projected) -> dict[int, str]:
    """What stands in, by position."""
    return {one.position: one.text for one in done.edits}


def names(done: Projected) -> list[str]:
    return [decision.idempotency_key for decision in done.decisions]


def twice_read() -> list[Native]:
    """Two reads of one file: the first may go."""
    return flat(user(), read("c1", "a.py"), user(), read("c2", "a.py"), user())


def conversation() -> list[Native]:
    return flat(
        twice_read(),
        bash("c3", "make " + "x" * 900, HUGE, error=True),
        turns(2),
        read("c4", "b.py", HUGE),
        write("c5", "b.py"),
        shell("ls", HUGE),
        user(),
    )
