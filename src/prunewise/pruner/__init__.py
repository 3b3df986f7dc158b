"""Policy and Pruner: the engine over one conversation, request by request.

A policy is what to go by: immutable, shared by any number of conversations. A pruner is one
conversation: it takes each request as the host would send it, sees what is new, and gives the
request to send instead. Messages are treated as immutable: a host that changes one passes a new object.
"""

from prunewise.errors import PrunewiseWarning
from prunewise.pruner.answers import Projected, Stats
from prunewise.pruner.clock import Caller
from prunewise.pruner.engagement import CompactionCheck
from prunewise.pruner.policy import Policy
from prunewise.pruner.pruner import Pruner, plan

__all__ = [
    "Caller",
    "CompactionCheck",
    "Policy",
    "Projected",
    "Pruner",
    "PrunewiseWarning",
    "Stats",
    "plan",
]
