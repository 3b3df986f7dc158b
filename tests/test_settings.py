"""The rules of the settings: merging, what is allowed, messages, and changing one key."""

import copy
import json
import math
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prunewise.errors import SettingsError
from prunewise.settings import (
    DEFAULTS,
    PROTECTED_GLOBS,
    SETTINGS,
    ErrorPurge,
    Gate,
    Problem,
    Protections,
    Pruning,
    Setting,
    Settings,
    StateThresholds,
    Strategies,
    Thresholds,
    Toggle,
    changed,
    from_text,
    get,
    parse,
    setting,
    shown,
    to_data,
    unknown,
)

DOCUMENTED = {
    "enabled": True,
    "protections": {
        "toolNames": [
            "todo",
            "task",
            "subagent",
            "agent",
            "skill",
            "oracle",
            "librarian",
            "contrarian",
            "code_reviewer",
            "gnosis",
            "triage_comments",
        ],
        "pathGlobs": [
            "**/.env",
            "**/.env.*",
            "**/*.pem",
            "**/*.key",
            "**/id_rsa*",
            "**/id_ed25519*",
            "**/secrets/**",
            "**/*.p12",
            "**/*.pfx",
        ],
        "recentTurns": 4,
    },
    "thresholds": {"minCharsSaved": 200},
    "strategies": {
        "dedupe": {"enabled": True},
        "errorPurge": {"enabled": True, "minTurnsOld": 4},
        "supersededFileOps": {"enabled": True},
    },
    "gate": {
        "mode": "on",
        "cachedPriceRatio": 0.1,
        "breakEvenThreshold": 22,
        "breakEvenThresholdByState": {"idle": 22, "mid_loop": 22},
    },
    "pruning": {"enabled": True, "minResultTokens": 1000, "protectCurrentTurn": True, "footer": True},
}


def nested(key: str, value: object) -> dict[str, object]:
    """A mapping that holds one value at a dotted key."""
    first, *rest = key.split(".")
    return {first: nested(".".join(rest), value) if rest else value}


# ---------------------------------------------------------------- defaults


def test_the_defaults_are_the_documented_ones():
    documented = copy.deepcopy(DOCUMENTED)
    by_state = documented["gate"].pop("breakEvenThresholdByState")
    ours = {"policy": "documented", "priced": to_data(DEFAULTS)["priced"], "reserve": 16384}
    assert to_data(DEFAULTS) == {**documented, **ours}
    assert {state: DEFAULTS.gate.threshold(state) for state in by_state} == by_state
    assert DEFAULTS.window is None


def test_the_documented_full_shape_has_no_problem_and_no_unknown_key():
    settings, problems = parse(DOCUMENTED)
    assert (problems, unknown(DOCUMENTED)) == ([], [])
    assert settings == Settings(gate=Gate(break_even_threshold_by_state=StateThresholds(22, 22)))


def test_every_setting_is_declared_once_and_reachable_in_the_types():
    keys = [entry.key for entry in SETTINGS]
    assert len(keys) == len(set(keys))
    ours = {"policy", *(f"priced.{key}" for key in to_data(DEFAULTS)["priced"])}
    assert set(keys) == set(leaves(DOCUMENTED)) | ours | {"window", "reserve"}


def leaves(data: dict[str, object], prefix: str = "") -> Iterator[str]:
    for name, value in data.items():
        if isinstance(value, dict):
            yield from leaves(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"


@pytest.mark.parametrize("entry", SETTINGS, ids=lambda entry: entry.key)
def test_a_setting_declares_a_default_that_it_allows_and_words_for_the_reader(entry: Setting):
    assert entry.default is not None or entry.unset
    if entry.default is not None:
        assert entry.rule.read(entry.default) == entry.default
    assert entry.meaning.endswith(".")
    assert entry.type
    assert entry.allowed


# ---------------------------------------------------------------- merging


@pytest.mark.parametrize(
    "data", [{}, {"gate": {}}, {"gate": None}, {"gate": {"mode": None}}, {"window": None}]
)
def test_what_is_missing_or_null_has_its_default(data: object):
    assert parse(data) == (DEFAULTS, [])


@pytest.mark.parametrize(
    ("key", "value", "kept"),
    [
        ("enabled", False, False),
        ("protections.toolNames", ["mine"], ("mine",)),
        ("protections.toolNames", ("mine",), ("mine",)),
        ("protections.pathGlobs", [], ()),
        ("protections.recentTurns", 0, 0),
        ("protections.recentTurns", 4.0, 4),
        ("thresholds.minCharsSaved", 10**30, 2**53 - 1),
        ("strategies.errorPurge.minTurnsOld", 7, 7),
        ("strategies.supersededFileOps.enabled", False, False),
        ("gate.mode", "always-apply", "always-apply"),
        ("gate.cachedPriceRatio", 0, 0),
        ("gate.cachedPriceRatio", 1, 1),
        ("gate.breakEvenThreshold", 22.5, 22.5),
        ("gate.breakEvenThreshold", 10**20, 1e20),
        ("gate.breakEvenThresholdByState.mid_loop", 54, 54),
        ("pruning.minResultTokens", 0, 0),
        ("window", 1, 1),
        ("reserve", 0, 0),
    ],
)
def test_an_allowed_value_replaces_the_default_of_its_key_only(key: str, value: object, kept: object):
    settings, problems = parse(nested(key, value))
    assert problems == []
    assert get(settings, key) == kept
    assert type(get(settings, key)) is type(kept)
    others = [entry.key for entry in SETTINGS if entry.key != key]
    assert all(get(settings, other) == get(DEFAULTS, other) for other in others)


def test_a_value_is_merged_over_the_base_and_not_over_the_defaults():
    base, _ = parse({"pruning": {"minResultTokens": 5, "enabled": False}})
    settings, _ = parse({"pruning": {"enabled": True}}, base)
    assert settings.pruning == Pruning(min_result_tokens=5)


@pytest.mark.parametrize(
    ("gate", "idle", "mid_loop"),
    [
        ({}, 22, 22),
        ({"breakEvenThreshold": 30}, 30, 30),
        ({"breakEvenThreshold": 30, "breakEvenThresholdByState": {"idle": 2}}, 2, 30),
        ({"breakEvenThresholdByState": {"mid_loop": 0}}, 22, 0),
        ({"breakEvenThreshold": 30, "breakEvenThresholdByState": None}, 30, 30),
        ({"breakEvenThreshold": 30, "breakEvenThresholdByState": {"idle": "few"}}, 30, 30),
    ],
)
def test_a_missing_state_threshold_equals_the_threshold(
    gate: dict[str, object], idle: float, mid_loop: float
):
    settings, _ = parse({"gate": gate})
    assert (settings.gate.threshold("idle"), settings.gate.threshold("mid_loop")) == (idle, mid_loop)


# ---------------------------------------------------------------- what is not allowed

NOT_A_NUMBER = [True, "4", [4], {"n": 4}, math.nan, math.inf, -math.inf, -1, -0.5]
NOT_ALLOWED = [
    *[("enabled", value) for value in (0, 1, "true", [], {}, 1.0)],
    *[("protections.recentTurns", value) for value in (*NOT_A_NUMBER, 4.5, -(10**400))],
    *[("protections.toolNames", value) for value in ("todo", {"todo": True}, ["todo", 1], [None], 3, True)],
    *[("gate.mode", value) for value in ("ON", "sometimes", "", True, 1, ["on"], {})],
    *[("gate.cachedPriceRatio", value) for value in (*NOT_A_NUMBER, 1.01)],
    *[("gate.breakEvenThreshold", value) for value in (*NOT_A_NUMBER, 10**400)],
    *[("gate.breakEvenThresholdByState.idle", value) for value in NOT_A_NUMBER],
    *[("window", value) for value in (*NOT_A_NUMBER, 0)],
]


@pytest.mark.parametrize(("key", "value"), NOT_ALLOWED)
def test_a_value_that_is_not_allowed_leaves_the_default_and_is_one_problem(key: str, value: object):
    settings, problems = parse(nested(key, value))
    assert settings == DEFAULTS
    [problem] = problems
    assert problem == Problem(key, problem.value, setting(key).allowed, get(DEFAULTS, key))
    assert problem.value is value


@pytest.mark.parametrize("value", [1, "on", [], [{}], True, math.nan])
@pytest.mark.parametrize("section", ["gate", "strategies.errorPurge", "gate.breakEvenThresholdByState"])
def test_a_section_that_is_no_object_leaves_the_whole_section(section: str, value: object):
    settings, problems = parse(nested(section, value))
    assert settings == DEFAULTS
    assert [(problem.key, problem.allowed, problem.kept) for problem in problems] == [
        (section, "an object", None)
    ]


@pytest.mark.parametrize("data", [None, [], 1, "x", True])
def test_settings_that_are_no_object_are_a_problem_as_a_whole(data: object):
    settings, [problem] = parse(data)
    assert settings == DEFAULTS
    assert str(problem).startswith("settings: ")


def test_one_broken_value_does_not_touch_its_neighbours():
    settings, problems = parse({"gate": {"mode": "no", "breakEvenThreshold": 5}, "enabled": False})
    assert len(problems) == 1
    assert (settings.gate, settings.enabled) == (Gate(break_even_threshold=5), False)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            {"gate": {"mode": "sometimes"}},
            'gate.mode: "sometimes" is not allowed; give "on", "off" or "always-apply" (using "on")',
        ),
        (
            {"protections": {"recentTurns": 4.5}},
            "protections.recentTurns: 4.5 is not allowed; give a whole number, 0 or more (using 4)",
        ),
        (
            {"protections": {"pathGlobs": ["a", {}, [1], None, object()]}},
            (
                'protections.pathGlobs: ["a", {...}, [...], null, object] is not allowed; '
                "give a list of strings, or [] for none (using a list of 9)"
            ),
        ),
        ({"gate": []}, "gate: [] is not allowed; give an object"),
        (
            {"gate": {"breakEvenThresholdByState": {"idle": math.nan}}},
            "gate.breakEvenThresholdByState.idle: NaN is not allowed; give a number, 0 or more",
        ),
    ],
)
def test_a_problem_names_key_value_what_is_allowed_and_what_holds(data: object, message: str):
    _, [problem] = parse(data)
    assert str(problem) == message


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a\nb\x1b[31m", r'"a\nb\u001b[31m"'),
        ("\ud800ü", '"\\ud800ü"'),
        (10**1000, "a very large number"),
        (None, "null"),
        (-1.5, "-1.5"),
    ],
)
def test_a_shown_value_is_one_printable_line(value: object, text: str):
    assert shown(value) == text


@pytest.mark.parametrize(
    "value", ["x" * 10**6, ["x" * 1000] * 1000, ["x"] * 10**5], ids=["string", "long items", "many items"]
)
def test_a_shown_value_is_short(value: object):
    assert len(shown(value)) <= 200


# ---------------------------------------------------------------- unknown keys


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        ({"enabeld": True}, ["enabeld is no setting: did you mean enabled?"]),
        ({"gate": {"Mode": "on"}}, ["gate.Mode is no setting: did you mean gate.mode?"]),
        (
            {"strategies": {"error-purge": {"enabled": False}}},
            ["strategies.error-purge is no setting: did you mean strategies.errorPurge?"],
        ),
        ({"recent_turns": 1}, ["recent_turns is no setting: did you mean protections.recentTurns?"]),
        (
            {"gate": {"breakEvenThreshold_by_state": {}}},
            ["gate.breakEvenThreshold_by_state is no setting: did you mean gate.breakEvenThresholdByState?"],
        ),
        ({"midLoop": 1}, ["midLoop is no setting: did you mean gate.breakEvenThresholdByState.mid_loop?"]),
        ({"$schema": "x", "zzz": {"gate": 1}}, ["$schema is no setting", "zzz is no setting"]),
        ({"gate": {"enabled": True}}, ["gate.enabled is no setting"]),
        ({"gate": 3, "enabled": {"x": 1}}, []),
        ([1], []),
    ],
)
def test_an_unknown_key_is_no_problem_but_a_slip_is_pointed_out(data: object, lines: list[str]):
    assert [str(key) for key in unknown(data)] == lines


def test_unknown_keys_do_not_stop_the_known_ones():
    settings, problems = parse({"enabeld": 3, "gate": {"x": [], "mode": "off"}})
    assert (settings.gate.mode, problems) == ("off", [])


# ---------------------------------------------------------------- one key


@pytest.mark.parametrize("entry", SETTINGS, ids=lambda entry: entry.key)
def test_a_setting_is_found_by_its_key(entry: Setting):
    assert setting(entry.key) is entry


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("gate.mod", "gate.mod is no setting: did you mean gate.mode?"),
        ("gate.mode.x", "gate.mode.x is no setting"),
        ("nonsense.key", "nonsense.key is no setting"),
        ("", " is no setting"),
        ("strategies.dedupe", "strategies.dedupe is a section: set one of strategies.dedupe.enabled"),
    ],
)
def test_a_key_that_is_no_setting_is_an_error(key: str, message: str):
    for call in (lambda: setting(key), lambda: changed({}, key, 1), lambda: from_text(key, "1")):
        with pytest.raises(SettingsError) as caught:
            call()
        assert str(caught.value) == message


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("pruning.enabled", "true", True),
        ("pruning.enabled", " off ", False),
        ("enabled", "on", True),
        ("pruning.minResultTokens", "500", 500),
        ("gate.mode", "off", "off"),
        ("gate.mode", '"on"', "on"),
        ("gate.breakEvenThreshold", "2.5", 2.5),
        ("protections.toolNames", '["a"]', ("a",)),
    ],
)
def test_a_commands_text_is_json_or_a_bare_word(key: str, text: str, value: object):
    assert from_text(key, text) == value


@pytest.mark.parametrize(
    ("key", "text"),
    [("pruning.minResultTokens", "many"), ("enabled", "1"), ("gate.mode", ""), ("window", "[" * 10**5)],
)
def test_a_commands_text_that_is_not_allowed_is_an_error(key: str, text: str):
    with pytest.raises(SettingsError, match=rf"^{key}: .* is not allowed; give "):
        from_text(key, text)


# ---------------------------------------------------------------- changing


def test_a_change_keeps_unknown_keys_their_order_and_the_mapping_it_was_given():
    data = {"z": 1, "gate": {"new": [1], "mode": "on", "x": {}}, "a": None}
    before = copy.deepcopy(data)
    after = changed(data, "gate.mode", "off")
    assert json.dumps(after) == json.dumps({"z": 1, "gate": {"new": [1], "mode": "off", "x": {}}, "a": None})
    assert data == before


@pytest.mark.parametrize(
    ("data", "key", "value", "after"),
    [
        ({}, "gate.mode", "off", {"gate": {"mode": "off"}}),
        ({"a": 1}, "enabled", False, {"a": 1, "enabled": False}),
        ({"gate": "broken"}, "gate.mode", "off", {"gate": {"mode": "off"}}),
        ({"gate": None}, "gate.mode", "off", {"gate": {"mode": "off"}}),
        ([1], "enabled", True, {"enabled": True}),
        ({}, "protections.toolNames", ("a",), {"protections": {"toolNames": ["a"]}}),
        ({}, "protections.recentTurns", 4.0, {"protections": {"recentTurns": 4}}),
        ({"gate": {"mode": "off", "x": 1}}, "gate.mode", None, {"gate": {"x": 1}}),
        ({"gate": "broken"}, "gate.mode", None, {"gate": "broken"}),
        ({}, "gate.mode", None, {}),
        ({}, "enabled", None, {}),
    ],
)
def test_a_change_sets_one_key_and_none_takes_it_out(
    data: object, key: str, value: object, after: dict[str, object]
):
    assert changed(data, key, value) == after


@pytest.mark.parametrize(("key", "value"), NOT_ALLOWED)
def test_a_change_to_a_value_that_is_not_allowed_is_an_error(key: str, value: object):
    with pytest.raises(SettingsError, match="is not allowed; give "):
        changed({}, key, value)


# ---------------------------------------------------------------- properties

counts = st.integers(0, 2**53 - 1)
calls = st.one_of(counts, st.floats(0, 1e300))
words = st.lists(st.text(st.characters()), max_size=4).map(tuple)
all_settings = st.builds(
    Settings,
    enabled=st.booleans(),
    protections=st.builds(Protections, tool_names=words, path_globs=words, recent_turns=counts),
    thresholds=st.builds(Thresholds, min_chars_saved=counts),
    strategies=st.builds(
        Strategies,
        dedupe=st.builds(Toggle, enabled=st.booleans()),
        error_purge=st.builds(ErrorPurge, enabled=st.booleans(), min_turns_old=counts),
        superseded_file_ops=st.builds(Toggle, enabled=st.booleans()),
    ),
    gate=st.builds(
        Gate,
        mode=st.sampled_from(["on", "off", "always-apply"]),
        cached_price_ratio=st.floats(0, 1),
        break_even_threshold=calls,
        break_even_threshold_by_state=st.builds(
            StateThresholds, idle=st.none() | calls, mid_loop=st.none() | calls
        ),
    ),
    pruning=st.builds(
        Pruning, enabled=st.booleans(), min_result_tokens=counts, protect_current_turn=st.booleans()
    ),
    window=st.none() | st.integers(1, 2**53 - 1),
    reserve=counts,
)
names = st.sampled_from(sorted({name for entry in SETTINGS for name in entry.key.split(".")})) | st.text(
    max_size=8
)
scalars = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()) | st.just(10**400)
)
any_json = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=6),
    max_leaves=30,
)


@given(all_settings)
def test_settings_come_back_from_their_data(settings: Settings):
    assert parse(to_data(settings)) == (settings, [])
    assert parse(json.loads(json.dumps(to_data(settings)))) == (settings, [])
    assert unknown(to_data(settings)) == []


@given(any_json, all_settings)
def test_parsing_never_raises_and_what_it_gives_is_allowed(data: object, base: Settings):
    settings, problems = parse(data, base)
    assert parse(to_data(settings)) == (settings, [])
    for line in [*map(str, problems), *map(str, unknown(data))]:
        assert line.encode(errors="surrogatepass")
    for problem in problems:
        assert len(str(problem).splitlines()) == 1


@given(any_json, st.sampled_from(SETTINGS), all_settings)
def test_a_change_is_what_parsing_then_finds(data: object, entry: Setting, other: Settings):
    value = get(other, entry.key)
    after = changed(data, entry.key, value)
    settings, problems = parse(after)
    assert get(settings, entry.key) == (get(DEFAULTS, entry.key) if value is None else value)
    assert value is None or entry.key not in [problem.key for problem in problems]
    if isinstance(data, dict):
        assert [name for name in after if name in data] == [name for name in data if name in after]


def test_no_settings_share_state():
    first, _ = parse({"protections": {"toolNames": ["a"]}})
    second, _ = parse({})
    assert first.protections.path_globs == second.protections.path_globs == PROTECTED_GLOBS
    with pytest.raises(AttributeError):
        first.enabled = False


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        ([1], (1,)),
        ([0, 2.5, 3, 4], (0, 2.5, 3, 4)),
        ([], None),
        ([1, 2, 3, 4, 5], None),
        ([-1], None),
        ([True], None),
        (["1"], None),
        (7, None),
    ],
)
def test_a_survival_table_is_one_to_four_numbers(value: object, kept: object):
    assert setting("priced.survival").rule.read(value) == kept
