"""What providers charge for input, and by what rules their prompt caches work.

Prices are multiples of a model's base input price; where a dollar price is known it stands beside
them. The rules (times to live, minimum prefixes, breakpoints) are in no price list, so the table is
ours, each row with its source and the day it was checked. Dollars, tiers and dated ratios come from
the package genai-prices where it is installed (extra `replay`); without it the table's ratios stand.
Knows no clock and no file: times and parsed files are handed in.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from prunewise.errors import SettingsError

if TYPE_CHECKING:
    from genai_prices.types import ModelInfo, ModelPrice, Provider, TieredPrices

Style = Literal["automatic", "explicit"]
"""`automatic` caches hold any prefix of an earlier request, in steps; `explicit` ones hold the prefixes
that end at a breakpoint, whether the client or the provider sets it."""

MINUTE = 60.0
HOUR = 3600.0
DAY = 86400.0


class CacheRules(msgspec.Struct, frozen=True):
    """How one family's prompt cache works, and what it costs as multiples of the base input price."""

    family: str
    provider: str
    models: str
    """A regular expression that the plain model id (see `plain`) matches from its start."""
    read: float
    write: float
    """What a token costs that goes into the cache; 1 where writing is not charged extra."""
    write_1h: float
    """The same for entries that live the longest time; `write` where there is but one."""
    output: float
    """What a token of output costs: typical of the family, where no price list says."""
    style: Style
    time_to_live: float
    """Seconds that an entry lives after its last use, by default."""
    longest: float
    """Seconds that an entry may live: what a client can ask for, or has been seen."""
    minimum: int
    """Tokens below which a prefix is not cached."""
    source: str
    checked: str
    """The day the row was checked (ISO)."""
    refreshed: bool = True
    """Whether a use starts the time to live again, free of charge."""
    step: int = 1
    """Beyond the minimum, cached prefixes grow in steps of so many tokens."""
    breakpoints: int | None = None
    """How many prefixes one request can write; None where there are no breakpoints."""
    lookback: int | None = None
    """How many positions back from a breakpoint an entry is found, itself the first; None: any."""
    signed: bool = False
    """Whether the signature of a thinking block covers everything before it: a change in front of one is
    refused, unless that block and all later ones are left out. By default for accounts created since
    2026-08-31; from Fable 5.2 on for all."""
    drops_reasoning: bool = False
    """Whether reasoning behind a change is dropped without an error: the answer comes, but without it."""
    assumed: tuple[str, ...] = ()
    """The fields that the provider does not state. What stands there is an assumption of ours."""
    fallback: bool = False
    """Nothing is known of the models in it. A provider's last one also answers for all other models of it."""


_CLAUDE = "platform.claude.com: prompt caching, pricing, model pages"
_BINDING = f"{_CLAUDE}, prefix checks on thinking blocks"
_OPENAI = "developers.openai.com: prompt caching guide, model pages"
_UNCHANGED = f"{_OPENAI}, keep the prefix unchanged"
_AZURE = "learn.microsoft.com: PromptCacheBreakpointConfig (12 h)"
_GOOGLE = "ai.google.dev and Google Cloud: context caching"
_LISTS = "genai-prices 0.2.3, litellm 1.110.2"
_CHECKED = "2026-11-30"


def _claude(
    family: str,
    models: str,
    minimum: int,
    *,
    read: float = 0.1,
    fallback: bool = False,
    assumed: tuple[str, ...] = (),
    signed: bool = False,
) -> CacheRules:
    return CacheRules(
        family,
        "anthropic",
        models,
        read=read,
        write=1.25,
        write_1h=2.0,
        output=5.0,
        style="explicit",
        time_to_live=5 * MINUTE,
        longest=HOUR,
        minimum=minimum,
        source=_BINDING if signed else _CLAUDE,
        checked=_CHECKED,
        breakpoints=4,
        lookback=20,
        signed=signed,
        assumed=assumed,
        fallback=fallback,
    )


def _openai_breakpoints(
    family: str,
    models: str,
    read: float,
    *,
    drops_reasoning: bool = False,
    fallback: bool = False,
    assumed: tuple[str, ...] = (),
) -> CacheRules:
    return CacheRules(
        family,
        "openai",
        models,
        read=read,
        write=1.25,
        write_1h=1.25,
        output=5.0,
        style="explicit",
        time_to_live=30 * MINUTE,
        longest=12 * HOUR,
        minimum=1024,
        source=f"{_UNCHANGED if drops_reasoning else _OPENAI}; {_AZURE}",
        checked=_CHECKED,
        breakpoints=4,
        drops_reasoning=drops_reasoning,
        fallback=fallback,
        assumed=assumed,
    )


def _automatic(
    family: str,
    provider: str,
    models: str,
    *,
    read: float,
    output: float,
    source: str,
    time_to_live: float = 5 * MINUTE,
    longest: float = HOUR,
    write: float = 1.0,
    minimum: int = 1024,
    step: int = 1,
    assumed: tuple[str, ...] = (),
    fallback: bool = False,
) -> CacheRules:
    return CacheRules(
        family,
        provider,
        models,
        read=read,
        write=write,
        write_1h=write,
        output=output,
        style="automatic",
        time_to_live=time_to_live,
        longest=longest,
        minimum=minimum,
        source=source,
        checked=_CHECKED,
        step=step,
        assumed=assumed,
        fallback=fallback,
    )


_TIMES = ("time_to_live", "longest")
_ENDS = r"(?!\d|[.-]\d{1,2}(?!\d))"
"""No further part of a version follows; a date may."""

RULES: tuple[CacheRules, ...] = (
    _claude(
        "Claude Fable 5.1, 5.2, Mythos 5.2",
        rf"claude-(fable-5-[12]|mythos-5-2){_ENDS}",
        512,
        read=0.025,
        signed=True,
    ),
    _claude("Claude Mythos 5.1", rf"claude-mythos-5-1{_ENDS}", 512, read=0.025, assumed=("signed",)),
    _claude("Claude Fable 5, Mythos 5", rf"claude-(fable|mythos)-5{_ENDS}", 512),
    _claude("Claude Opus 5.5", rf"claude-opus-5-5{_ENDS}", 512, read=0.05, signed=True),
    _claude(
        "Claude Sonnet 5.5",
        rf"claude-sonnet-5-5{_ENDS}",
        1024,
        read=0.05,
        signed=True,
        assumed=("minimum",),
    ),
    _claude("Claude Opus 5", rf"claude-opus-5{_ENDS}", 512),
    _claude("Claude Opus 4.7", r"claude-opus-4-7", 2048),
    _claude("Claude Opus 4.5, 4.6, Haiku 4.5", r"claude-(opus-4-[56]|haiku-4-5)", 4096),
    _claude("Claude Haiku 5.5", rf"claude-haiku-5-5{_ENDS}", 4096, signed=True, assumed=("minimum",)),
    _claude("Claude Haiku 3, 3.5", r"claude-(3(-5)?-haiku|haiku-3)", 2048),
    _claude(
        "Claude Opus 4, 4.1, 4.8, Sonnet 3.7 to 5",
        rf"claude-((opus|sonnet)-4|sonnet-5{_ENDS}|3-[57]-sonnet|4-(opus|sonnet))",
        1024,
    ),
    _claude(
        "Claude, later",
        r"claude-(fable|mythos|opus|sonnet|haiku)-([5-9]|\d\d)(?!\d)",
        4096,
        signed=True,
        assumed=("read", "minimum", "signed"),
        fallback=True,
    ),
    _claude("Claude, other", r"claude", 4096, assumed=("read", "minimum", "signed"), fallback=True),
    _openai_breakpoints("GPT-6.2", rf"gpt-6[.-]2{_ENDS}", 0.05, drops_reasoning=True),
    _openai_breakpoints("GPT-6.1", rf"gpt-6[.-]1{_ENDS}", 0.05),
    _openai_breakpoints("GPT-5.6 to 6", rf"gpt-(5[.-][6-9]|6){_ENDS}", 0.1),
    _automatic(
        "GPT-5.5",
        "openai",
        r"gpt-5[.-]5",
        read=0.1,
        output=6.0,
        step=128,
        time_to_live=DAY,
        longest=DAY,
        source=_OPENAI,
        assumed=("time_to_live",),
    ),
    _automatic(
        "GPT-5 to 5.4",
        "openai",
        r"gpt-5(?!\S*spark)",  # a preview that has no price
        read=0.1,
        output=8.0,
        step=128,
        time_to_live=10 * MINUTE,
        longest=DAY,
        source=_OPENAI,
    ),
    _automatic(
        "GPT-4.1, o3, o4-mini",
        "openai",
        r"gpt-4[.-]1|o3(?!-mini)|o4-mini|codex-mini",
        read=0.25,
        output=4.0,
        step=128,
        time_to_live=10 * MINUTE,
        source=_OPENAI,
    ),
    _automatic(
        "GPT-4o, o1",
        "openai",
        r"gpt-4o|chatgpt-4o|o1|o3-mini",
        read=0.5,
        output=4.0,
        step=128,
        time_to_live=10 * MINUTE,
        source=_OPENAI,
    ),
    _openai_breakpoints(
        "GPT, later",
        r"gpt-[6-9](?!\d)",
        0.1,
        drops_reasoning=True,
        fallback=True,
        assumed=("read", "write", "time_to_live", "longest", "drops_reasoning"),
    ),
    _automatic(
        "OpenAI, other",
        "openai",
        r"gpt|codex|o\d",
        read=0.1,
        output=8.0,
        step=128,
        time_to_live=10 * MINUTE,
        source=_OPENAI,
        assumed=("read", "time_to_live", "longest"),
        fallback=True,
    ),
    _automatic(
        "Gemini 4",
        "google",
        r"gemini-4",
        read=0.05,
        output=5.0,
        minimum=4096,
        source=f"{_GOOGLE}; {_LISTS}",
        assumed=(*_TIMES, "minimum"),
    ),
    _automatic(
        "Gemini 2.5 to 3.8 Flash",
        "google",
        r"gemini-(2[.-]5|3)\S*flash",
        read=0.1,
        output=6.0,
        source=_GOOGLE,
        assumed=_TIMES,
    ),
    _automatic(
        "Gemini 2.5 to 3.8 Pro",
        "google",
        r"gemini-(2[.-]5|3)",
        read=0.1,
        output=8.0,
        minimum=4096,
        source=_GOOGLE,
        assumed=_TIMES,
    ),
    _automatic(
        "Gemini, other",
        "google",
        r"gemini|gemma",
        read=0.25,
        output=4.0,
        minimum=4096,
        source=_GOOGLE,
        assumed=("read", *_TIMES, "minimum"),
        fallback=True,
    ),
    _automatic(
        "DeepSeek V4 Pro",
        "deepseek",
        r"deepseek-v4\S*pro",
        read=0.0333,
        output=3.0,
        minimum=64,
        step=64,
        source=f"api-docs.deepseek.com: context caching; {_LISTS}",
        assumed=_TIMES,
    ),
    _automatic(
        "DeepSeek V4 Flash",
        "deepseek",
        r"deepseek-(v4|flash)",
        read=0.02,
        output=4.0,
        minimum=64,
        step=64,
        source=f"api-docs.deepseek.com: context caching; {_LISTS}",
        assumed=_TIMES,
    ),
    _automatic(
        "DeepSeek, other",
        "deepseek",
        r"deepseek",
        read=0.26,
        output=4.0,
        minimum=64,
        step=64,
        source=f"api-docs.deepseek.com: context caching; {_LISTS}",
        assumed=("read", *_TIMES),
        fallback=True,
    ),
    _automatic(
        "Grok 4.20, 4.3, 4.5",
        "x-ai",
        r"grok-4[.-](20|3|5)",
        read=0.16,
        output=3.0,
        source=_LISTS,
        assumed=(*_TIMES, "minimum"),
    ),
    _automatic(
        "Grok, other",
        "x-ai",
        r"grok",
        read=0.25,
        output=3.0,
        source=_LISTS,
        assumed=("read", *_TIMES, "minimum"),
        fallback=True,
    ),
    _automatic(
        "Kimi K3",
        "moonshotai",
        r"kimi-k3",
        read=0.1,
        output=5.0,
        source=_LISTS,
        assumed=(*_TIMES, "minimum"),
    ),
    _automatic(
        "Kimi, other",
        "moonshotai",
        r"kimi|moonshot",
        read=0.2,
        output=4.2,
        source=_LISTS,
        assumed=("read", *_TIMES, "minimum"),
        fallback=True,
    ),
    _automatic(
        "Qwen (implicit)",
        "alibaba",
        r"qw(en|q)",
        read=0.2,
        output=4.0,
        source="Alibaba Model Studio: context cache",
        assumed=("output", "longest", "minimum"),
        fallback=True,
    ),
    _automatic(
        "GLM",
        "zai",
        r"glm",
        read=0.2,
        output=3.2,
        source=_LISTS,
        assumed=(*_TIMES, "minimum"),
        fallback=True,
    ),
    _automatic(
        "MiniMax M2",
        "minimax",
        r"minimax-m2",
        read=0.1,
        write=1.25,
        output=4.0,
        source=_LISTS,
        assumed=(*_TIMES, "minimum"),
    ),
    _automatic(
        "MiniMax, other",
        "minimax",
        r"minimax",
        read=0.2,
        output=4.0,
        source=_LISTS,
        assumed=("read", *_TIMES, "minimum"),
        fallback=True,
    ),
    _automatic(
        "Mistral",
        "mistral",
        r"(\w+stral)",
        read=0.1,
        output=4.0,
        source=_LISTS,
        assumed=("output", *_TIMES, "minimum"),
        fallback=True,
    ),
)
"""The table: of the rows that match a model, the first holds."""

_ASSUMPTION = "no provider: the cached price ratio and the five minutes of dynamic-context-pruning 0.1.6"
UNKNOWN = _automatic(
    "unknown",
    "",
    r"",
    read=0.1,
    output=5.0,
    source=_ASSUMPTION,
    assumed=("read", "write", "output", *_TIMES, "minimum"),
    fallback=True,
)
"""What is assumed of a model of which neither name nor provider is known."""


class Rates(msgspec.Struct, frozen=True):
    """What one token costs, in base input prices: the base input price itself is 1."""

    input: float
    read: float
    write: float
    write_1h: float
    output: float


class Tier(msgspec.Struct, frozen=True):
    """Rates for all tokens of a request whose input exceeds `above` tokens."""

    above: int
    rates: Rates


class Prices(msgspec.Struct, frozen=True):
    """What one model costs and how its cache works."""

    model: str
    """As it was asked for."""
    rules: CacheRules
    rates: Rates
    tiers: tuple[Tier, ...] = ()
    """By rising threshold."""
    dollars_per_million: float | None = None
    """The base input price, US dollars per million tokens; None where unknown."""
    default: bool = False
    """True where the model is not known and its provider's default stands in."""
    source: str = ""
    checked: str = ""

    def at(self, input_tokens: float) -> Rates:
        """The rates of a request with so many input tokens in all."""
        rates = self.rates
        for tier in self.tiers:
            if input_tokens > tier.above:
                rates = tier.rates
        return rates

    def dollars(self, units: float) -> float | None:
        """What so many base input tokens cost in US dollars, where known."""
        return None if self.dollars_per_million is None else units * self.dollars_per_million / 1e6


# ---------------------------------------------------------------- names

_ALIASES = {
    "alibaba-cloud": "alibaba",
    "amazon-bedrock": "aws",
    "azure-openai": "azure",
    "bedrock": "aws",
    "claude": "anthropic",
    "claude-code": "anthropic",
    "codex": "openai",
    "copilot": "github-copilot",
    "dashscope": "alibaba",
    "gemini": "google",
    "gemini-cli": "google",
    "google-antigravity": "google",
    "google-gemini-cli": "google",
    "google-generative-ai": "google",
    "google-vertex": "google",
    "grok": "x-ai",
    "kimi": "moonshotai",
    "kimi-coding": "moonshotai",
    "moonshot": "moonshotai",
    "openai-codex": "openai",
    "openai-responses": "openai",
    "qwen": "alibaba",
    "vertex": "google",
    "vertex-ai": "google",
    "xai": "x-ai",
    "z-ai": "zai",
    "zhipuai": "zai",
}
_SELLER = re.compile(
    r"(?:(?:anthropic|openai|openai-chat|openai-responses|bedrock|google(?:-gla|-vertex)?|vertexai|azure"
    r"|openrouter|databricks)(?::|--?(?=claude|gpt)))+"
)
_DECORATION = re.compile(r"(\[\w+\]|@[\w.-]+|:[\w.-]+|-v\d+:\d+|-thinking|-fast)+$")
_DEPLOYMENT = re.compile(
    r"^((us|us-gov|eu|apac|global|au|jp|ca)\.)?(anthropic|openai|amazon|meta|mistral|deepseek|qwen|moonshot)\."
)


def plain(model: str) -> str:
    """A model id without what agents and resellers put around it.

    `anthropic/claude-opus-4.5`, `us.anthropic.claude-opus-4-5-20251101-v1:0`, `claude-opus-4-5[1m]`,
    `anthropic:claude-opus-4-5` and `models/gemini-2.5-pro` lose everything before and behind the maker's own
    id; Claude's version numbers are written with dashes.
    """
    name = model.strip().lower().rsplit("/", 1)[-1]
    name = _DEPLOYMENT.sub("", name[sold.end() :] if (sold := _SELLER.match(name)) else name)
    name = _DECORATION.sub("", name)
    return name.replace(".", "-") if name.startswith("claude") else name


def provider_name(provider: str) -> str:
    """A provider's name as price lists write it."""
    name = provider.strip().lower().replace("_", "-").replace(" ", "-")
    return _ALIASES.get(name, name)


def rules_for(model: str, provider: str = "") -> CacheRules | None:
    """The table's row for a model, else its provider's default row, else None."""
    name = plain(model)
    for row in RULES:
        if re.match(row.models, name):
            return row
    maker = provider_name(provider)
    for row in reversed(RULES):
        if row.fallback and row.provider == maker:
            return row
    return None


def prices_for(model: str, provider: str = "", when: float | None = None) -> Prices | None:
    """What a model costs.

    Args:
        model: the model's id as an agent writes it.
        provider: who serves it, as an agent writes it; empty where unknown.
        when: the time of the request, seconds since the epoch, since prices change; None takes the latest.

    Returns:
        None where neither the model nor its provider is known (`assumed_prices` says what is assumed
        then). `default` is set where only the provider is known.
    """
    rules = rules_for(model, provider)
    listed = _listed(model, provider, when)
    if rules is None:
        return None if listed is None else _with_list(model, UNKNOWN, listed)
    found = _from_rules(model, rules) if listed is None else _with_list(model, rules, listed)
    return at_speed(found, "fast") if _FAST.match(model.strip().lower()) else found


_FAST = re.compile(r"\S*claude-\S*-fast$")
_SPEEDS = (
    (r"claude-opus-4-6", "fast", 6.0),
    (rf"claude-opus-(4-8|5(-5)?){_ENDS}", "fast", 2.0),
    (r"claude-", "batch", 0.5),
    (r"claude-((opus|sonnet)-4-[6-9]|(opus|sonnet|haiku|fable|mythos)-[5-9])", "us", 1.1),
    (r"gpt-|o\d", "flex", 0.5),
    (r"gpt-|o\d", "batch", 0.5),
    (rf"gpt-5[.-]5{_ENDS}", "priority", 2.5),
    (r"gpt-6", "priority", 2.0),
    (r"gpt-6", "ultrafast", 6.0),
)
"""By what a model's prices are multiplied at each speed (pattern of the plain id, speed, factor): the pricing
pages of Claude and OpenAI, litellm 1.110.2, checked on the day of the rules."""


def at_speed(prices: Prices, speed: str) -> Prices:
    """The prices at a speed, service tier or place other than the standard: the ratios stay, the dollars are
    multiplied. They are not known where the provider's factor is not.

    Args:
        prices: the model's.
        speed: `fast`, `priority`, `flex`, `batch`, `us`, ...; several with a space between; empty: standard.
    """
    dollars = prices.dollars_per_million
    for one in speed.split():
        name = plain(prices.model)
        factor = next((by for models, at, by in _SPEEDS if at == one and re.match(models, name)), None)
        dollars = None if dollars is None or factor is None else dollars * factor
    return msgspec.structs.replace(prices, dollars_per_million=dollars) if speed else prices


def assumed_prices(model: str = "") -> Prices:
    """What is assumed where `prices_for` knows nothing: reads at a tenth, free writes, five minutes."""
    return _from_rules(model, UNKNOWN)


def _from_rules(model: str, rules: CacheRules) -> Prices:
    rates = Rates(1.0, rules.read, rules.write, rules.write_1h, rules.output)
    return Prices(model, rules, rates, default=rules.fallback, source=rules.source, checked=rules.checked)


# ---------------------------------------------------------------- the price list

_LATEST = datetime(9999, 12, 31, 12, tzinfo=UTC)
_KEYS = ("input_mtok", "cache_read_mtok", "cache_write_mtok", "cache_write_1h_mtok", "output_mtok")


class _Listed(msgspec.Struct, frozen=True):
    """A row of the price list: dollars per million tokens by threshold (0 first), in the order of `_KEYS`."""

    source: str
    base: Decimal
    dollars: tuple[tuple[int, tuple[Decimal | None, ...]], ...]


def _per_million(models: str, source: str, input: str, read: str, output: str) -> tuple[str, _Listed]:
    prices = (Decimal(input), Decimal(read), None, None, Decimal(output))
    return models, _Listed(source, Decimal(input), ((0, prices),))


_UNLISTED = (
    _per_million(
        rf"gpt-6[.-]2-astra{_ENDS}",
        "developers.openai.com: GPT-6.2 Astra; cached input: litellm, 2026-11-18",
        "8",
        "0.40",
        "40",
    ),
    _per_million(
        rf"gpt-6[.-]2-sol{_ENDS}",
        "developers.openai.com: GPT-6.2 Sol; cached input: that of GPT-6.1 Sol",
        "2",
        "0.10",
        "10",
    ),
    _per_million(r"codex-mini-latest", "developers.openai.com: codex-mini-latest", "1.50", "0.375", "6"),
)
"""Models that the price list lacks, by the pattern of their plain id, checked on the day of the rules."""


def _listed(model: str, provider: str, when: float | None) -> _Listed | None:
    name = plain(model)
    own = next((row for pattern, row in _UNLISTED if re.match(pattern, name)), None)
    return _in_package(model, provider, when) or own


def _in_package(model: str, provider: str, when: float | None) -> _Listed | None:
    try:
        import genai_prices
        from genai_prices.data_snapshot import get_snapshot
    except ImportError:
        return None
    time = _LATEST if when is None else datetime.fromtimestamp(when, UTC)
    snapshot = get_snapshot()
    for name, maker in _names(model, provider):
        try:
            seller, found = snapshot.find_provider_model(name, None, maker, None)
        except LookupError:
            continue
        if _version(found.id) != _version(model):
            continue  # the list takes a beginning for the whole: m2 for m2.5
        row = _row(seller, found, found.get_prices(time), genai_prices.__version__)
        if row is not None:
            return row
    return None


_NO_VERSION = re.compile(
    r"[-@]?(?:20\d\d-?\d\d-?\d\d|\d{6}|\d{4}|\d\d-\d\d)(?!\d)|\d+(?:\.\d+)?[bkm]\b|-0\d\d\b"
)
"""Numbers in a model's id that are none of its version: dates, sizes, builds."""


def _version(model: str) -> list[int]:
    """The numbers of a model's version, without zeros at its end."""
    numbers = [int(number) for number in re.findall(r"\d+", _NO_VERSION.sub("", plain(model)))]
    while numbers and not numbers[-1]:
        numbers.pop()
    return numbers


def _names(model: str, provider: str) -> Iterator[tuple[str, str | None]]:
    """The spellings to look a model up by, the nearest to the request first."""
    bare = plain(model)
    dotted = re.sub(r"(?<=\d)-(?=\d\b)", ".", bare)
    raw = model.strip().lower()
    makers: list[str | None] = [provider_name(provider), None] if provider else [None]
    for maker in makers:
        for name in dict.fromkeys((raw, bare, dotted)):
            yield name, maker
    if "/" in raw:
        yield raw, "openrouter"


def _row(seller: Provider, found: ModelInfo, prices: ModelPrice, version: str) -> _Listed | None:
    values: list[Decimal | TieredPrices | None] = [getattr(prices, key) for key in _KEYS]
    base = _dollars(values[0], 0)
    if not base:
        return None  # no price, or a free model: no ratio can be formed
    starts = {
        tier.start for value in values if value and not isinstance(value, Decimal) for tier in value.tiers
    }
    dollars = tuple(
        (start, tuple(_dollars(value, start) for value in values)) for start in sorted({0, *starts})
    )
    return _Listed(f"genai-prices {version}: {seller.id}, {found.id}", base, dollars)


def _dollars(value: Decimal | TieredPrices | None, start: int) -> Decimal | None:
    if value is None or isinstance(value, Decimal):
        return value
    price = value.base
    for tier in value.tiers:
        if start >= tier.start:
            price = tier.price
    return price


def _with_list(model: str, rules: CacheRules, listed: _Listed) -> Prices:
    base = listed.base
    tiers: list[Tier] = []
    for above, (given, *others) in listed.dollars:
        full = float((given or base) / base)
        read, write, write_1h, output = (None if price is None else float(price / base) for price in others)
        write = rules.write * full if write is None else write
        tiers.append(
            Tier(
                above,
                Rates(
                    full,
                    rules.read * full if read is None else read,
                    write,
                    max(rules.write_1h * full, write) if write_1h is None else write_1h,
                    rules.output * full if output is None else output,
                ),
            )
        )
    return Prices(
        model,
        rules,
        tiers[0].rates,
        tuple(tiers[1:]),
        float(base),
        source=f"{listed.source}; rules: {rules.source}",
        checked=rules.checked,
    )


# ---------------------------------------------------------------- overrides


class Override(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a user knows better; None leaves a figure as it is. Ratios are to the base input price."""

    input: float | None = None
    """The base input price, US dollars per million tokens."""
    read: float | None = None
    write: float | None = None
    write_1h: float | None = None
    output: float | None = None
    ttl: float | None = None
    """The time to live in seconds; it is then the longest too, unless that is given."""
    longest: float | None = None
    minimum: int | None = None
    step: int | None = None
    breakpoints: int | None = None
    lookback: int | None = None
    style: Style | None = None


def override(prices: Prices, known: Override) -> Prices:
    """The prices with what the user knows better. Tiers keep their factor over the base price."""
    rules = msgspec.structs.replace(
        prices.rules,
        **_given(
            time_to_live=known.ttl,
            longest=known.ttl if known.longest is None else known.longest,
            minimum=known.minimum,
            step=known.step,
            breakpoints=known.breakpoints,
            lookback=known.lookback,
            style=known.style,
        ),
    )
    return msgspec.structs.replace(
        prices,
        rules=rules,
        rates=_rates(prices.rates, known),
        tiers=tuple(Tier(tier.above, _rates(tier.rates, known)) for tier in prices.tiers),
        dollars_per_million=prices.dollars_per_million if known.input is None else known.input,
        source=prices.source if known == Override() else f"given by the user; else {prices.source}",
    )


def _rates(rates: Rates, known: Override) -> Rates:
    ratios = _given(read=known.read, write=known.write, write_1h=known.write_1h, output=known.output)
    if known.write is not None and known.write_1h is None:
        ratios["write_1h"] = max(known.write, rates.write_1h / rates.input)
    return msgspec.structs.replace(rates, **{name: ratio * rates.input for name, ratio in ratios.items()})


def _given(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


class PriceBook(msgspec.Struct, frozen=True):
    """Prices with a user's overrides: for all models, and for those whose id matches a glob."""

    every: Override = Override()
    models: tuple[tuple[str, Override], ...] = ()

    def prices_for(self, model: str, provider: str = "", when: float | None = None) -> Prices:
        """As `prices_for` of this module, overridden, and never None: what nobody knows is assumed."""
        prices = prices_for(model, provider, when) or assumed_prices(model)
        prices = override(prices, self.every)
        if not self.models:
            return prices
        from wcmatch import fnmatch  # costs some milliseconds; most processes never match a model

        for pattern, known in self.models:
            if fnmatch.fnmatch(plain(model), pattern.lower()) or fnmatch.fnmatch(
                model.lower(), pattern.lower()
            ):
                prices = msgspec.structs.replace(override(prices, known), default=False)
        return prices


class _PriceFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    default: Override = Override()
    models: dict[str, Override] = {}


def parse_prices(data: Mapping[str, Any]) -> PriceBook:
    """Read a price file that has been decoded from JSON or TOML.

    Its shape: `default` holds an override for every model, `models` one for each glob on model ids,
    of which later ones win.

    Raises:
        SettingsError: a key that does not exist, or a figure that no price can be; it names the key.
    """
    try:
        file = msgspec.convert(data, _PriceFile)
    except msgspec.ValidationError as error:
        message = f"prices: {error}; a file has `default`, for every model, and `models`, by glob"
        raise SettingsError(message) from None
    for path, known in (
        ("default", file.default),
        *((f"models.{key}", value) for key, value in file.models.items()),
    ):
        _check(path, known)
    return PriceBook(file.default, tuple(file.models.items()))


def _check(path: str, known: Override) -> None:
    for name in known.__struct_fields__:
        value = getattr(known, name)
        if value is None or isinstance(value, str):
            continue
        least = 1 if name in ("step", "breakpoints", "lookback") else 0
        if not math.isfinite(value) or value < least:
            message = f"prices: {path}.{name} is {value}: a number of at least {least} is needed"
            raise SettingsError(message)
