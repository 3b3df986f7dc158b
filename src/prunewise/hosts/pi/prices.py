"""What models cost in pi: pi's own figures, by which it counts dollars too, and for the rest the price list.

pi's figures come first, since a user's `models.json` is in them. pi writes 0 for what it does not
know, and for what is free: then the family's usual ratio holds. How a cache works pi does not say.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct

from prunewise.prices import CacheRules, Prices, Rates, Tier, assumed_prices, prices_for, rules_for

_MAKERS = {"anthropic-messages": "anthropic"}
"""Whose cache rules hold behind an API where neither model nor provider is known."""


class Cost(Struct, frozen=True, rename="camel"):
    """US dollars per million tokens, as pi has them; of a tier, for requests with more input than `above`."""

    input: float | None = None
    output: float | None = None
    cache_read: float | None = None
    cache_write: float | None = None
    above: float | None = msgspec.field(default=None, name="inputTokensAbove")
    tiers: tuple[Cost, ...] | None = None


class Model(Struct, frozen=True):
    """The model that is to answer, as pi knows it."""

    provider: str
    id: str
    api: str = ""
    cost: Cost | None = None

    @property
    def name(self) -> str:
        """As pi's settings call it."""
        return f"{self.provider}/{self.id}"


class ModelPrices:
    """Prices of the models that pi has told of, and of others. What was told of a model first holds."""

    def __init__(self) -> None:
        self._told: dict[str | tuple[str, str], Prices] = {}

    def tell(self, model: Model) -> None:
        """Take in what pi says of a model."""
        if (model.provider, model.id) not in self._told:
            found = prices_of(model)
            self._told[model.provider, model.id] = self._told[model.id] = found

    def prices_for(self, model: str, provider: str = "", when: float | None = None) -> Prices:
        """As `prunewise.prices.prices_for`, and never None: what nobody knows is assumed."""
        told = self._told.get((provider, model)) if provider else self._told.get(model)
        return told or prices_for(model, provider, when) or assumed_prices(model)


def prices_of(model: Model) -> Prices:
    """What a model costs: pi's figures, where it has any, and else those of the list."""
    cost, maker = model.cost, _MAKERS.get(model.api, "")
    base = None if cost is None else cost.input
    if cost is None or not base:
        listed = prices_for(model.id, model.provider) or prices_for(model.id, maker)
        return listed or assumed_prices(model.id)
    known = rules_for(model.id, model.provider) or rules_for(model.id, maker)
    rules = known or assumed_prices(model.id).rules
    tiers = [Tier(int(tier.above), _rates(tier, base, rules)) for tier in cost.tiers or () if tier.above]
    return Prices(
        model.id,
        rules,
        _rates(cost, base, rules),
        tuple(sorted(tiers, key=lambda tier: tier.above)),
        base,
        default=known is None or known.fallback,
        source=f"pi's model list; rules: {rules.source}",
        checked=rules.checked,
    )


def _rates(cost: Cost, base: float, rules: CacheRules) -> Rates:
    """One row as multiples of the base input price."""
    full = (cost.input or base) / base
    write = (cost.cache_write or 0.0) / base or rules.write * full
    return Rates(
        full,
        (cost.cache_read or 0.0) / base or rules.read * full,
        write,
        max(write, rules.write_1h * full),
        (cost.output or 0.0) / base or rules.output * full,
    )
