"""The engine under the priced policy: two lanes, what the cache holds, and when a cut pays.

The free lane acts on what has never been sent: it shortens large outputs, and lets an output that is in
view already point there. The paid lane cuts behind, batched and rarely: what is old, repeated,
superseded or failed, where the prices say that it pays. Decisions are made once and stand, as ever.
"""

from __future__ import annotations

from prunewise import tools
from prunewise.engine import Engine, Reference, Rules


def engine_for(
    rules: Rules,
    reference: Reference,
    *,
    cwd: str | None = None,
    vocabulary: tools.Vocabulary = tools.PI,
) -> Engine:
    """The engine that the settings ask for."""
    make: type[Engine] = Engine
    if rules.settings.policy == "priced":
        from prunewise.priced.engine import PricedEngine  # costs 15 ms, which the other policy does without

        make = PricedEngine
    return make(rules, reference, cwd=cwd, vocabulary=vocabulary)
