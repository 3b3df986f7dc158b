"""Policy: what to prune by. Immutable, and shared by any number of conversations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from prunewise.engine import Rules
from prunewise.gates import Gate, documented
from prunewise.settings import DEFAULTS, Settings
from prunewise.tokens import DOCUMENTED, Estimator

if TYPE_CHECKING:
    from pathlib import Path

SettingsLike: TypeAlias = "Settings | Mapping[str, Any] | str | Path | None"


class Policy:
    """What to prune by: settings, the gate, prices and the estimator. Immutable; share it."""

    __slots__ = ("problems", "rules")

    def __init__(
        self,
        settings: SettingsLike = None,
        prices: object | None = None,
        *,
        gate: Gate = documented,
        estimator: Estimator = DOCUMENTED,
    ) -> None:
        """`settings` is a Settings, a mapping in the JSON shape of the configuration file, or a path to one.

        Raises:
            SettingsError: a path that is not there or does not parse. Single broken values become
                defaults, and `problems` says so.
        """
        found, problems = _resolve(settings)
        self.rules = Rules(found, gate, estimator, prices)
        self.problems: tuple[str, ...] = tuple(problems)

    @property
    def settings(self) -> Settings:
        """The settings it goes by."""
        return self.rules.settings


def _resolve(settings: SettingsLike) -> tuple[Settings, list[str]]:
    if settings is None:
        return DEFAULTS, []
    from prunewise.stores.settings_files import resolve  # costs more to import than all of the engine

    return resolve(settings)
