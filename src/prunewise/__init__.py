"""prunewise: which old tool outputs of an agent's context can go, and how to get them back."""

from prunewise.engine import Proposal
from prunewise.errors import InputError, PrunewiseError, RecallError, RefusedError, SettingsError
from prunewise.plan import Plan
from prunewise.pruner import Policy, Projected, Pruner, PrunewiseWarning, plan
from prunewise.settings import Settings

__version__ = "0.1.0"

__all__ = [
    "InputError",
    "Plan",
    "Policy",
    "Projected",
    "Proposal",
    "Pruner",
    "PrunewiseError",
    "PrunewiseWarning",
    "RecallError",
    "RefusedError",
    "Settings",
    "SettingsError",
    "__version__",
    "plan",
]
