"""Whose prices hold: pi's own, where it has any, and for the rest the price list's."""

import pytest

from prunewise.hosts.pi.prices import Cost, Model, ModelPrices, prices_of
from prunewise.prices import Rates, prices_for, rules_for

CLAUDE = "claude-opus-4-5"


def test_what_pi_says_comes_before_the_list():
    cost = Cost(2, 20, 0.5, 3)
    found = prices_of(Model("anthropic", CLAUDE, "anthropic-messages", cost))
    assert found.rates == Rates(1.0, 0.25, 1.5, 2.0, 10.0)
    assert found.dollars_per_million == 2
    assert found.rules == rules_for(CLAUDE)
    assert found.source.startswith("pi's model list; rules: ")


@pytest.mark.parametrize("cost", [None, Cost(), Cost(0, 0, 0, 0)])
def test_a_model_that_pi_has_no_price_for_costs_what_the_list_says(cost: Cost | None):
    assert prices_of(Model("anthropic", CLAUDE, "", cost)) == prices_for(CLAUDE, "anthropic")


def test_what_pi_leaves_at_nothing_keeps_its_ratio():
    found = prices_of(Model("anthropic", CLAUDE, "", Cost(2, 0, 0, 0)))
    assert found.rates == Rates(1.0, 0.1, 1.25, 2.0, 5.0)


def test_a_model_nobody_knows_has_the_cache_rules_of_its_api():
    cost = Cost(1, 5, 0.1, 1.25)
    behind_anthropic = prices_of(Model("mine", "my-model", "anthropic-messages", cost))
    assert (behind_anthropic.rules.style, behind_anthropic.rules.lookback) == ("explicit", 20)
    behind_another = prices_of(Model("mine", "my-model", "openai-completions", cost))
    assert behind_another.rules.style == "automatic"


def test_tiers_are_pis():
    large = Cost(4, 10, 0.4, 5, above=200_000)
    found = prices_of(Model("mine", "m", "", Cost(2, 10, 0.2, 2.5, tiers=(large, Cost(9)))))
    assert found.at(200_000) == found.rates
    assert found.at(200_001) == Rates(2.0, 0.2, 2.5, 2.5, 5.0)


def test_what_was_told_first_holds_and_others_are_looked_up():
    book = ModelPrices()
    book.tell(Model("mine", "m", "", Cost(2, 10, 0.5, 3)))
    book.tell(Model("mine", "m", "", Cost(9, 10, 0.5, 3)))
    assert book.prices_for("m", "mine").dollars_per_million == 2
    assert book.prices_for("m").dollars_per_million == 2
    assert book.prices_for("m", "other").dollars_per_million is None
    assert book.prices_for(CLAUDE) == prices_for(CLAUDE)
