"""The engine under the priced policy: two lanes, what the cache holds, and when a cut pays.

The free lane acts on what has never been sent: it leaves out what is proven to be noise, and lets an output
that is in view already point there. The paid lane takes out what the model has had in full and what is old,
repeated, superseded or failed, in batches, where the prices say that it pays. A decision stands once made.
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
