"""How likely what went is needed again, and for how many LLM calls a cut serves.

Both were measured on recorded sessions (docs/explanation/priced-policy.md says on which); a session's own
recalls raise the first for files and outputs of their sort. Knows no price.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec


class Hazard(msgspec.Struct, frozen=True):
    """How likely an output is needed once it is so many LLM calls old and has gone."""

    fresh: float
    """What fades with age."""
    fades: float
    """After so many calls that is down to a third (1/e)."""
    lasts: float
    """What does not fade."""

    def at(self, age: float) -> float:
        """The likelihood at an age."""
        return min(1.0, self.fresh * math.exp(-age / self.fades) + self.lasts)

    def fading(self, age: float) -> float:
        """The part of it that fades with age."""
        return self.fresh * math.exp(-age / self.fades)

    def times(self, factor: float) -> Hazard:
        """So many times as likely."""
        return Hazard(self.fresh * factor, self.fades, self.lasts * factor)


HAZARDS: dict[str, Hazard] = {
    "read": Hazard(0.20, 10.0, 0.015),
    "list": Hazard(0.08, 12.0, 0.02),
    "web": Hazard(0.10, 10.0, 0.015),
    "other": Hazard(0.02, 10.0, 0.004),
    "search": Hazard(0.10, 10.0, 0.01),
    "git": Hazard(0.04, 10.0, 0.003),
    "test": Hazard(0.01, 8.0, 0.001),
    "follow": Hazard(0.01, 8.0, 0.001),
    "change": Hazard(0.02, 8.0, 0.003),
    "dedupe": Hazard(0.01, 8.0, 0.001),
    "superseded-file-ops": Hazard(0.10, 8.0, 0.005),
    "error-purge": Hazard(0.05, 8.0, 0.005),
}
"""By the sort of output, or by the strategy that found it stale."""

SOON = 10.0
"""After so many LLM calls half of what is ever needed again has been needed."""

_SURE = 1.0
"""How many expected recalls the hazards are worth against what a session shows itself."""
_OF_A_SORT = 0.3
_OF_A_FILE = 1.0


class Needs:
    """What a session has needed again so far, against what was expected."""

    def __init__(self) -> None:
        self.level = 1.0
        """By how many times more it recalls than expected."""
        self._recalls = 0
        self._sorts: Counter[str] = Counter()
        self._paths: Counter[str] = Counter()

    def add(self, sort: str, paths: Iterable[str]) -> None:
        """Take in one recall."""
        self._recalls += 1
        self._sorts[sort] += 1
        self._paths.update(paths)

    def against(self, expected: float) -> None:
        """So many recalls were to be expected by now."""
        self.level = (_SURE + self._recalls) / (_SURE + expected)

    def factor(self, sort: str, paths: Iterable[str]) -> float:
        """By how many times likelier than its hazard says an output is needed again."""
        if not self._recalls:
            return self.level
        files = sum(self._paths[path] for path in paths) if self._paths else 0
        return self.level * (1 + _OF_A_SORT * self._sorts[sort] + _OF_A_FILE * files)


SURVIVAL_AFTER = (0, 10, 40, 80)
"""The numbers of LLM calls to which the entries of a survival table belong."""


def expected_calls(survival: Sequence[float], calls: int) -> float:
    """For how many LLM calls a cut serves, by a survival table, after so many of them."""
    known = sum(calls >= after for after in SURVIVAL_AFTER[: len(survival)])
    return survival[known - 1]
