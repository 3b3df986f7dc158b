"""The engine under the priced policy: two lanes, what the cache holds, and when a cut pays.

The free lane acts on what has never been sent: it shortens large outputs, and lets an output that is in
view already point there. The paid lane cuts behind, batched and rarely: what is old, repeated,
superseded or failed, where the prices say that it pays. Decisions are made once and stand, as ever.
"""

from prunewise.priced.candidates import ERRORS, STALE
from prunewise.priced.engine import PricedEngine, engine_for
from prunewise.priced.free import REPEAT, TRIM

__all__ = ["ERRORS", "REPEAT", "STALE", "TRIM", "PricedEngine", "engine_for"]
