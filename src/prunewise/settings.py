"""What can be set, what it is by default and what is allowed: values only, no file and no environment.

The settings have the JSON shape of the extension's configuration, with camelCase names. Where they are
kept and how they are written is the business of `prunewise.stores.settings_files`.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

GateMode = Literal["on", "off", "always-apply"]
AgentState = Literal["idle", "mid_loop"]

PROTECTED_TOOLS = (
    "todo",
    "task",
    "subagent",
    "agent",
    "skill",
    "oracle",
    "librarian",
    "contrarian",
    "code_reviewer",
    "gnosis",
    "triage_comments",
)
PROTECTED_GLOBS = (
    "**/.env",
    "**/.env.*",
    "**/*.pem",
    "**/*.key",
    "**/id_rsa*",
    "**/id_ed25519*",
    "**/secrets/**",
    "**/*.p12",
    "**/*.pfx",
)


class Protections(Struct, frozen=True, rename="camel"):
    """What no automatic strategy touches: tools by name, paths by glob, the last turns."""

    tool_names: tuple[str, ...] = PROTECTED_TOOLS
    path_globs: tuple[str, ...] = PROTECTED_GLOBS
    recent_turns: int = 4


class Thresholds(Struct, frozen=True, rename="camel"):
    """The size floor, in characters saved."""

    min_chars_saved: int = 200


class Toggle(Struct, frozen=True, rename="camel"):
    """A strategy that can only be switched on or off."""

    enabled: bool = True


class ErrorPurge(Struct, frozen=True, rename="camel"):
    """The error-purge strategy: a failed call's input may go once it is older than so many turns."""

    enabled: bool = True
    min_turns_old: int = 4


class Strategies(Struct, frozen=True, rename="camel"):
    """One part a strategy."""

    dedupe: Toggle = Toggle()
    error_purge: ErrorPurge = ErrorPurge()
    superseded_file_ops: Toggle = Toggle()


class StateThresholds(Struct, frozen=True):
    """Break-even thresholds by agent state, in LLM calls; None is "as `Gate.break_even_threshold`"."""

    idle: int | float | None = None
    mid_loop: int | float | None = None


class Gate(Struct, frozen=True, rename="camel"):
    """The net-benefit gate: its mode, the cached price ratio r, and the thresholds in LLM calls."""

    mode: GateMode = "on"
    cached_price_ratio: int | float = 0.1
    break_even_threshold: int | float = 22
    break_even_threshold_by_state: StateThresholds = StateThresholds()

    def threshold(self, state: AgentState) -> int | float:
        """The threshold that holds in a state: the state's own, else `break_even_threshold`."""
        by_state = self.break_even_threshold_by_state
        own = by_state.idle if state == "idle" else by_state.mid_loop
        return self.break_even_threshold if own is None else own


class Pruning(Struct, frozen=True, rename="camel"):
    """The two-level part: masking of large outputs in front of compaction. Sizes in tokens."""

    enabled: bool = True
    min_result_tokens: int = 1000
    protect_current_turn: bool = True


class Settings(Struct, frozen=True, rename="camel"):
    """All settings. `window` is the model's context window and `reserve` its head room, in tokens."""

    enabled: bool = True
    protections: Protections = Protections()
    thresholds: Thresholds = Thresholds()
    strategies: Strategies = Strategies()
    gate: Gate = Gate()
    pruning: Pruning = Pruning()
    window: int | None = None
    reserve: int = 16384


DEFAULTS = Settings()
