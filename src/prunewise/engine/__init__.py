"""The engine: propose, protect, drop what is too small, keep one proposal a target, ask the gate, edit.

Works over one transcript as it grows, so that each request costs what it adds. Knows no clock, no
file and no host: the ledger comes in folded, recall references through a function, and what it
decides goes out as values for its owner to record before they are applied.
"""

from prunewise.engine.edits import Place, place_of
from prunewise.engine.engine import Engine, Reference, Rules
from prunewise.engine.moment import NOW, Moment
from prunewise.engine.proposals import Lane, Proposal

__all__ = ["NOW", "Engine", "Lane", "Moment", "Place", "Proposal", "Reference", "Rules", "place_of"]
