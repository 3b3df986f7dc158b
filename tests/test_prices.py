import datetime as dt
import math
import re
import sys
from typing import Any

import msgspec
import pytest

from prunewise import prices
from prunewise.errors import SettingsError
from prunewise.prices import (
    RULES,
    UNKNOWN,
    Override,
    Prices,
    Rates,
    Tier,
    assumed_prices,
    at_speed,
    override,
    parse_prices,
    plain,
    prices_for,
    provider_name,
    rules_for,
)


def found(model: str, provider: str = "", when: float | None = None) -> Prices:
    known = prices_for(model, provider, when)
    assert known is not None
    return known


@pytest.fixture
def no_price_list(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "genai_prices", None)


# ---------------------------------------------------------------- names


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("claude-opus-4-5-20251101", "claude-opus-4-5-20251101"),
        ("anthropic/claude-opus-4.5", "claude-opus-4-5"),
        ("claude-sonnet-4-5[1m]", "claude-sonnet-4-5"),
        ("claude-opus-4-6-thinking", "claude-opus-4-6"),
        ("claude-opus-4-5@20251101", "claude-opus-4-5"),
        ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", "claude-sonnet-4-5-20250929"),
        ("anthropic.claude-opus-4-1-v1:0", "claude-opus-4-1"),
        (" Models/Gemini-2.5-Pro ", "gemini-2.5-pro"),
        ("openrouter/openai/gpt-5.2:free", "gpt-5.2"),
        ("gpt-5.2-codex", "gpt-5.2-codex"),
    ],
)
def test_a_model_id_loses_what_agents_put_around_it(written: str, name: str):
    assert plain(written) == name


@pytest.mark.parametrize(
    ("written", "name"),
    [("openai-codex", "openai"), ("Google_Vertex", "google"), ("anthropic", "anthropic"), ("other", "other")],
)
def test_a_provider_has_one_name(written: str, name: str):
    assert provider_name(written) == name


# ---------------------------------------------------------------- the table


def test_every_row_has_a_source_and_a_day():
    for row in (*RULES, UNKNOWN):
        assert row.source
        assert dt.date.fromisoformat(row.checked)
        assert 0 < row.read <= 1 <= row.write <= row.write_1h
        assert 0 < row.time_to_live <= row.longest
        assert set(row.assumed) <= set(row.__struct_fields__)
        re.compile(row.models)
    assert len({row.family for row in RULES}) == len(RULES)


def test_every_row_is_reached_before_its_providers_default():
    defaults: set[str] = set()
    for row in RULES:
        assert row.fallback or row.provider not in defaults, row.family
        if row.fallback:
            defaults.add(row.provider)
    assert defaults == {row.provider for row in RULES}


@pytest.mark.parametrize(
    ("model", "read", "write", "minimum"),
    [
        ("claude-fable-5-1", 0.025, 1.25, 512),
        ("claude-fable-5.2", 0.025, 1.25, 512),
        ("claude-fable-5", 0.1, 1.25, 512),
        ("claude-opus-5-5", 0.05, 1.25, 512),
        ("claude-sonnet-5.5", 0.05, 1.25, 1024),
        ("claude-opus-5", 0.1, 1.25, 512),
        ("claude-sonnet-5", 0.1, 1.25, 1024),
        ("claude-opus-4.8", 0.1, 1.25, 1024),
        ("claude-opus-4-7", 0.1, 1.25, 2048),
        ("claude-opus-4-6-thinking", 0.1, 1.25, 4096),
        ("claude-haiku-4-5-20251001", 0.1, 1.25, 4096),
        ("claude-3-5-haiku-20241022", 0.1, 1.25, 2048),
        ("claude-sonnet-4-20250514", 0.1, 1.25, 1024),
        ("claude-3-7-sonnet-20250219", 0.1, 1.25, 1024),
        ("gpt-6.1-sol", 0.05, 1.25, 1024),
        ("gpt-6", 0.1, 1.25, 1024),
        ("gpt-5.6-terra", 0.1, 1.25, 1024),
        ("gpt-5.5", 0.1, 1.0, 1024),
        ("gpt-5.3-codex-spark", 0.1, 1.0, 1024),
        ("gpt-4.1-mini", 0.25, 1.0, 1024),
        ("o3", 0.25, 1.0, 1024),
        ("o3-mini", 0.5, 1.0, 1024),
        ("gpt-4o", 0.5, 1.0, 1024),
        ("gemini-3-flash", 0.1, 1.0, 1024),
        ("gemini-3.1-pro-preview", 0.1, 1.0, 4096),
        ("gemini-4-argon", 0.05, 1.0, 4096),
        ("deepseek-v4-flash", 0.02, 1.0, 64),
        ("deepseek-v4-pro", 0.0333, 1.0, 64),
        ("grok-4.5", 0.16, 1.0, 1024),
        ("grok-4-0709", 0.25, 1.0, 1024),
        ("kimi-k3", 0.1, 1.0, 1024),
        ("kimi-k2.7-code", 0.2, 1.0, 1024),
        ("qwen3-coder-plus", 0.2, 1.0, 1024),
        ("GLM-5", 0.2, 1.0, 1024),
        ("MiniMax-M2", 0.1, 1.25, 1024),
        ("devstral-2512", 0.1, 1.0, 1024),
    ],
)
def test_the_row_of_a_model(model: str, read: float, write: float, minimum: int):
    row = rules_for(model)
    assert row is not None
    assert (row.read, row.write, row.minimum) == (read, write, minimum)


def test_anthropic_and_openai_differ_in_how_entries_are_found():
    claude, old, new = rules_for("claude-opus-5"), rules_for("gpt-5.2"), rules_for("gpt-5.6")
    assert claude
    assert old
    assert new
    assert (claude.style, claude.breakpoints, claude.lookback) == ("explicit", 4, 20)
    assert (claude.time_to_live, claude.longest, claude.write_1h) == (300, 3600, 2.0)
    assert (old.style, old.step, old.breakpoints, old.time_to_live, old.longest) == (
        "automatic",
        128,
        None,
        600,
        86400,
    )
    assert (new.style, new.breakpoints, new.lookback) == ("explicit", 4, None)
    assert new.time_to_live == 1800


# ---------------------------------------------------------------- without the price list


@pytest.mark.usefixtures("no_price_list")
def test_without_the_price_list_the_table_stands():
    known = found("claude-opus-4-5-20251101", "anthropic")
    assert known.rates == Rates(1.0, 0.1, 1.25, 2.0, 5.0)
    assert known.dollars_per_million is None
    assert known.dollars(1000) is None
    assert not known.default
    assert known.source == known.rules.source
    assert known.checked == known.rules.checked


@pytest.mark.usefixtures("no_price_list")
@pytest.mark.parametrize(
    ("model", "provider", "family"),
    [
        ("claude-zeta-9", "", "Claude, other"),
        ("zeta", "anthropic", "Claude, other"),
        ("gpt-99", "", "OpenAI, other"),
        ("", "openai-codex", "OpenAI, other"),
    ],
)
def test_an_unknown_model_gets_its_providers_default_and_says_so(model: str, provider: str, family: str):
    known = found(model, provider)
    assert known.default
    assert known.rules.family == family


@pytest.mark.usefixtures("no_price_list")
def test_nothing_known_is_none_and_has_a_stated_assumption():
    assert prices_for("zeta", "nobody") is None
    assert prices_for("") is None
    assumed = assumed_prices("zeta")
    assert assumed.default
    assert assumed.rates == Rates(1.0, 0.1, 1.0, 1.0, 5.0)
    assert assumed.model == "zeta"


# ---------------------------------------------------------------- with the price list


@pytest.mark.parametrize(
    ("model", "provider", "dollars", "read", "seller"),
    [
        ("claude-opus-4-5-20251101", "anthropic", 5.0, 0.1, "anthropic, claude-opus-4-5"),
        ("anthropic/claude-opus-4.5", "", 5.0, 0.1, "anthropic, claude-opus-4-5"),
        ("anthropic/claude-opus-4.5", "openrouter", 5.0, 0.1, "openrouter, anthropic/claude-opus-4.5"),
        ("claude-opus-4-6-thinking", "google-antigravity", 5.0, 0.1, "google, claude-opus-4-6"),
        ("gpt-5.2-codex", "openai-codex", 1.75, 0.1, "openai, gpt-5.2"),
        ("models/gemini-2.5-pro", "", 1.25, 0.1, "google, gemini-2.5-pro"),
        ("claude-sonnet-4.6", "github-copilot", 3.0, 0.1, "github-copilot, claude-sonnet-4.6"),
        ("qwen/qwen3-coder", "", 0.3, 1 / 3, "openrouter, qwen/qwen3-coder"),
        ("claude-opus-4-5", "some-proxy", 5.0, 0.1, "anthropic, claude-opus-4-5"),
    ],
)
def test_a_listed_price(model: str, provider: str, dollars: float, read: float, seller: str):
    known = found(model, provider)
    assert known.dollars_per_million == dollars
    assert known.rates.read == read
    assert seller in known.source
    assert not known.default


def test_dollars_of_base_input_tokens():
    assert found("claude-opus-4-5").dollars(200_000) == 1.0


def test_a_long_request_costs_the_tiers_rates_in_full():
    known = found("claude-sonnet-4-5", "anthropic")
    assert [tier.above for tier in known.tiers] == [200_000]
    assert known.at(200_000) == Rates(1.0, 0.1, 1.25, 2.0, 5.0)
    assert known.at(200_001) == Rates(2.0, 0.2, 2.5, 4.0, 7.5)


def test_the_table_fills_what_the_list_leaves_out():
    known = found("gpt-5.2", "openai")  # the list has no write price
    assert (known.rates.write, known.rates.write_1h) == (1.0, 1.0)
    assert found("anthropic/claude-opus-4.5", "openrouter").rates.write_1h == 2.0  # nor the hour's here


def test_a_model_that_only_the_list_knows_has_assumed_rules():
    known = found("sonar-pro", "perplexity")
    assert known.rules is UNKNOWN
    assert known.dollars_per_million == 3.0
    assert known.rates.read == 0.1


def test_prices_change_with_time():
    old, new = found("o3", when=1_745_000_000.0), found("o3", when=1_760_000_000.0)
    assert (old.dollars_per_million, new.dollars_per_million) == (10.0, 2.0)
    assert found("o3").dollars_per_million == 2.0


def test_a_free_model_and_one_without_a_price_have_no_listed_row(monkeypatch: pytest.MonkeyPatch):
    from genai_prices import data_snapshot
    from genai_prices.types import ModelPrice

    class Found:
        id = "claude-zeta"

        def get_prices(self, _time: object) -> ModelPrice:
            return ModelPrice()

    class Snapshot:
        def find_provider_model(self, *_: object) -> tuple[object, Found]:
            return Found(), Found()

    monkeypatch.setattr(data_snapshot, "get_snapshot", Snapshot)
    assert found("claude-zeta").dollars_per_million is None


def test_the_table_agrees_with_the_price_list():
    """A ratio that has changed since the table was checked shows here."""
    from genai_prices.data_snapshot import get_snapshot

    snapshot = get_snapshot()
    for seller in snapshot.providers:
        if seller.id not in ("anthropic", "openai"):
            continue
        for model in seller.models:
            row = rules_for(model.id)
            listed = prices._listed(model.id, seller.id, None)
            if row is None or row.fallback or listed is None or listed.dollars[0][1][1] is None:
                continue
            if re.search(r"realtime|audio|image|oss|claude-3-haiku", model.id):
                continue
            read = float(listed.dollars[0][1][1] / listed.base)
            assert math.isclose(read, row.read, rel_tol=0.01), model.id


# ---------------------------------------------------------------- what the user knows better


def test_an_override_changes_what_it_names():
    base = found("claude-sonnet-4-5", "anthropic")
    assert override(base, Override()) == base
    changed = override(base, Override(input=2.0, read=0.5, write=1.5, ttl=60))
    assert changed.rates == Rates(1.0, 0.5, 1.5, 2.0, 5.0)
    assert changed.tiers == (Tier(200_000, Rates(2.0, 1.0, 3.0, 4.0, 7.5)),)
    assert changed.dollars_per_million == 2.0
    assert (changed.rules.time_to_live, changed.rules.longest) == (60, 60)
    assert changed.source.startswith("given by the user")


def test_an_hours_write_is_never_cheaper_than_a_write():
    assert override(found("gpt-4o"), Override(write=3.0)).rates.write_1h == 3.0
    assert override(found("gpt-4o"), Override(write=3.0, write_1h=4.0)).rates.write_1h == 4.0


def test_a_price_file():
    book = parse_prices(
        {
            "default": {"read": 0.2},
            "models": {
                "claude-*": {"read": 0.3, "ttl": 100, "longest": 200, "lookback": 5, "style": "explicit"},
                "anthropic/*": {"input": 7},
                "zeta": {"minimum": 0},
            },
        }
    )
    claude = book.prices_for("anthropic/claude-opus-4.5")
    assert claude.rates.read == 0.3
    assert claude.dollars_per_million == 7
    assert (claude.rules.time_to_live, claude.rules.longest, claude.rules.lookback) == (100, 200, 5)
    assert book.prices_for("gpt-5.2").rates.read == 0.2
    zeta = book.prices_for("zeta")
    assert (zeta.default, zeta.rules.minimum, zeta.rates.read) == (False, 0, 0.2)
    assert book.prices_for("eta").default


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({"model": {}}, "unknown field `model`"),
        ({"models": {"a": {"reed": 1}}}, "unknown field `reed`"),
        ({"default": {"read": "much"}}, "$.default.read"),
        ({"default": {"read": -0.1}}, "default.read is -0.1: a number of at least 0"),
        ({"models": {"a": {"ttl": math.inf}}}, "models.a.ttl is inf"),
        ({"models": {"a": {"lookback": 0}}}, "models.a.lookback is 0: a number of at least 1"),
        ({"default": {"style": "eager"}}, "$.default.style"),
    ],
)
def test_a_price_file_that_cannot_be_used_says_where(data: dict[str, Any], said: str):
    with pytest.raises(SettingsError, match=re.escape(said)):
        parse_prices(data)


# ---------------------------------------------------------------- what comes of a changed prefix


def spellings(name: str, dotted: str, day: str) -> list[str]:
    """One Claude model, as those who sell it write it."""
    return [
        name,
        f"{name}-{day}",
        f"{name}-latest",
        f"{name}[1m]",
        f"{name}-thinking",
        f"{name}@{day}",
        f"anthropic/{dotted}",
        f"anthropic/{dotted}:thinking",
        f"openrouter/anthropic/{dotted}",
        dotted,
        f"anthropic:{name}",
        f"bedrock:us.anthropic.{name}",
        f"anthropic.{name}",
        f"us.anthropic.{name}-{day}-v1:0",
        f"global.anthropic.{name}-v1:0",
        f"bedrock/eu.anthropic.{name}-{day}-v1:0",
        f"arn:aws:bedrock:us-east-1:1:inference-profile/us-gov.anthropic.{name}-v1:0",
        f"vertex_ai/{name}@{day}",
        f"publishers/anthropic/models/{name}",
        f"databricks-{name}",
        f"anthropic--{name}",
        name.upper(),
    ]


@pytest.mark.parametrize(
    ("family", "version", "signed"),
    [
        ("fable", "5.1", True),
        ("fable", "5.2", True),
        ("mythos", "5.2", True),
        ("opus", "5.5", True),
        ("sonnet", "5.5", True),
        ("haiku", "5.5", True),
        ("opus", "5.6", True),
        ("fable", "6", True),
        ("sonnet", "10", True),
        ("mythos", "5.1", False),
        ("fable", "5", False),
        ("mythos", "5", False),
        ("opus", "5", False),
        ("sonnet", "5", False),
        ("opus", "4.8", False),
        ("opus", "4.5", False),
        ("sonnet", "4.6", False),
        ("sonnet", "4", False),
        ("haiku", "4.5", False),
    ],
)
@pytest.mark.parametrize("day", ["20260831", "20261109", "20250514"])
def test_which_signatures_bind_in_every_spelling(family: str, version: str, signed: bool, day: str):
    name = f"claude-{family}-{version.replace('.', '-')}"
    for written in spellings(name, f"claude-{family}-{version}", day):
        rules = rules_for(written)
        assert rules is not None
        assert (written, rules.signed) == (written, signed)
        assert not rules.drops_reasoning


@pytest.mark.parametrize(
    ("model", "drops"),
    [
        ("gpt-6.2", True),
        ("gpt-6.2-astra", True),
        ("gpt-6.2-sol", True),
        ("gpt-6.2-sol-2026-11-17", True),
        ("gpt-6-2-astra", True),
        ("openai/gpt-6.2-sol", True),
        ("openrouter/openai/gpt-6.2-astra:nitro", True),
        ("openai:gpt-6.2-sol", True),
        ("openai-responses:gpt-6.2-sol", True),
        ("openai.gpt-6.2-sol-v1:0", True),
        ("azure/gpt-6.2-astra", True),
        ("gpt-6.2-codex", True),
        ("gpt-6.3", True),
        ("gpt-6.10-sol", True),
        ("gpt-7", True),
        ("gpt-7.1-astra", True),
        ("gpt-6.1-sol", False),
        ("gpt-6.1", False),
        ("gpt-6-astra", False),
        ("gpt-6", False),
        ("gpt-6-2026-09-03", False),
        ("gpt-6-luna-2026-02-22", False),
        ("gpt-5.6-sol", False),
        ("gpt-5.5", False),
        ("gpt-5.2-codex", False),
        ("gpt-4o", False),
        ("o3", False),
        ("codex-mini-latest", False),
    ],
)
def test_which_models_drop_reasoning_behind_a_change(model: str, drops: bool):
    rules = rules_for(model, "openai")
    assert rules is not None
    assert rules.drops_reasoning == drops
    assert not rules.signed


@pytest.mark.parametrize(
    ("model", "family"),
    [
        ("claude-fable-5-20260101", "Claude Fable 5, Mythos 5"),
        ("claude-opus-5-20260501", "Claude Opus 5"),
        ("claude-sonnet-5-20260501", "Claude Opus 4, 4.1, 4.8, Sonnet 3.7 to 5"),
        ("claude-sonnet-4-20250514", "Claude Opus 4, 4.1, 4.8, Sonnet 3.7 to 5"),
        ("gpt-6-1106", "GPT-5.6 to 6"),
    ],
)
def test_a_date_is_no_version(model: str, family: str):
    rules = rules_for(model)
    assert rules is not None
    assert rules.family == family


@pytest.mark.parametrize(
    ("model", "provider", "family"),
    [
        ("claude-opus-6", "", "Claude, later"),
        ("gpt-7", "", "GPT, later"),
        ("own-deployment", "anthropic", "Claude, other"),
        ("own-deployment", "openai", "OpenAI, other"),
    ],
)
@pytest.mark.usefixtures("no_price_list")
def test_a_model_that_is_not_known_is_said_to_be_so(model: str, provider: str, family: str):
    known = found(model, provider)
    assert (known.rules.family, known.default) == (family, True)


@pytest.mark.parametrize(
    ("model", "dollars"),
    [
        ("minimax-m2", 0.3),
        ("mistral-medium-3.5", 1.5),
        ("claude-sonnet-4-20250514", 3.0),
        ("claude-4-sonnet", 3.0),
        ("claude-3-opus-20240229", 15.0),
        ("gemini-2.5-flash-preview-05-20", 0.15),
        ("gemini-2.0-flash-001", 0.1),
        ("kimi-k2-0905-preview", 0.6),
        ("gpt-4.1-2025-04-14", 2.0),
        ("minimax-m2.5", None),  # the list has m2
        ("mistral-medium-3", None),  # and 3.5
        ("gpt-5.3-codex-spark", None),
        ("claude-opus-5-7", None),
        ("gpt-6.9", None),
        ("grok-9", None),
    ],
)
def test_no_version_is_priced_as_another(model: str, dollars: float | None):
    assert found(model).dollars_per_million == dollars


@pytest.mark.parametrize(
    ("model", "provider", "rates"),
    [
        ("gpt-6.2-astra", "openai", (8.0, 0.05, 1.25, 5.0)),
        ("openai/gpt-6.2-sol", "", (2.0, 0.05, 1.25, 5.0)),
        ("codex-mini-latest", "openai", (1.5, 0.25, 1.0, 4.0)),
    ],
)
def test_what_the_list_lacks_is_priced_by_its_provider(model: str, provider: str, rates: tuple[float, ...]):
    known = found(model, provider)
    got = (known.dollars_per_million, known.rates.read, known.rates.write, known.rates.output)
    assert got == pytest.approx(rates)
    assert "developers.openai.com" in known.source


def test_a_preview_without_a_price_is_not_known():
    assert found("gpt-5.3-codex-spark", "openai").default
    assert not found("gpt-5.3-codex", "openai").default


@pytest.mark.parametrize(
    ("model", "speed", "factor"),
    [
        ("claude-opus-4-6", "", 1),
        ("claude-opus-4-6", "fast", 6),
        ("anthropic/claude-opus-4.6", "fast", 6),
        ("claude-opus-4-8", "fast", 2),
        ("claude-opus-5-5", "fast", 2),
        ("claude-opus-4-6", "us", 1.1),
        ("claude-opus-4-6", "fast us", 6.6),
        ("claude-sonnet-4-6", "batch", 0.5),
        ("gpt-5.5", "priority", 2.5),
        ("gpt-6-sol", "flex", 0.5),
        ("claude-opus-4-7", "fast", None),  # the factor is not known
        ("claude-opus-4-5", "us", None),
        ("claude-opus-4-6", "priority", None),
        ("claude-opus-4-6", "odd", None),
        ("claude-opus-4-6", "fast odd", None),
        ("gpt-5.5", "ultrafast", None),
    ],
)
def test_a_speed_multiplies_the_dollars_or_leaves_them_unknown(model: str, speed: str, factor: float | None):
    standard = prices_for(model)
    assert standard is not None
    found = at_speed(standard, speed)
    assert (found.rates, found.tiers, found.rules) == (standard.rates, standard.tiers, standard.rules)
    assert standard.dollars_per_million is not None
    if factor is None:
        assert found.dollars_per_million is None
    else:
        assert found.dollars_per_million == pytest.approx(factor * standard.dollars_per_million)


def test_a_speed_in_the_models_name():
    assert prices_for("claude-opus-4.6-fast") == at_speed(
        msgspec.structs.replace(prices_for("claude-opus-4-6"), model="claude-opus-4.6-fast"), "fast"
    )
