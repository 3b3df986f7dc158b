"""The commands in pi: what they say, what they ask, and what they change."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.hosts.pi.support import LONG, Talk

from prunewise.errors import PrunewiseError
from prunewise.hosts.pi import protocol
from prunewise.hosts.pi.commands import COMPLETIONS
from prunewise.hosts.pi.protocol import AnswerParams, Append, Confirm, Input, Select
from prunewise.replay import outcome
from prunewise.stores import settings_files

MakeTalk = Callable[..., Talk]


@pytest.fixture
def session(talk: MakeTalk) -> Talk:
    """A session with one output that is worth pruning, and one that is not."""
    made = talk()
    made.say("Look.")
    made.call("bash", command="make test")
    made.call("bash", "ok", command="true")
    made.say("Go on.")
    return made


def extension_settings() -> dict[str, Any]:
    return json.loads(settings_files.extension_file().read_text())


# ---- /context-pruning


def test_bare_it_is_its_help(session: Talk):
    assert session.says("/context-pruning").splitlines()[0] == "/context-pruning status"


def test_status_has_every_field(session: Talk):
    session.context()
    usage = {"tokens": 1200, "contextWindow": 10_000, "percent": 12.0}
    assert session.says("/context-pruning status", usage=usage).splitlines() == [
        "enabled: on",
        "policy: documented",
        "gate: on, threshold 22 LLM calls, ratio 0.1",
        "strategies: dedupe on, error-purge on, superseded-file-ops on",
        "protections: 11 tool names, 9 path globs, the last 4 turns",
        "last request: 541 tokens raw, 541 effective, 0 saved (0 pruned, 0 masked)",
        "context: 1,200 of 10,000 tokens (12.0%)",
        "masking before compaction: on",
        "cache breaks: 0",
        "net saving: not known yet (no answer has told its usage)",
        outcome.advice(None),
    ]


def test_status_says_what_was_measured_of_the_other_policy_and_only_where_it_is_another(session: Talk):
    folder = outcome.cache_folder()
    assert folder is not None
    shares = outcome.Share(0.01), outcome.Share(0.2)
    outcome.keep(outcome.Outcome("2026-01-02", 12, 345, "priced", *shares), folder)
    measured = "the policy priced would have saved 20.0% of the input's cost"
    assert measured in session.says("/context-pruning status")
    assert session.says("/context-pruning policy priced") == "The policy is priced."
    status = session.says("/context-pruning status")
    assert "policy: priced" in status
    assert measured not in status


def test_the_net_saving_is_in_status_stats_and_footer(session: Talk):
    session.session.set("protections.recentTurns", 0)
    session.session.set("gate.mode", "off")
    usage = {"input": 0, "output": 10, "cacheRead": 0, "cacheWrite": 4000}
    session.answer([], usage=usage)
    session.context()
    session.answer([], usage={**usage, "cacheRead": 3000, "cacheWrite": 1000})
    answer = session.context()
    for command in ("status", "stats"):
        assert "net saving: " in session.says(f"/context-pruning {command}")
        assert "of 1 LLM call would have cost" in session.says(f"/context-pruning {command}")
    assert answer.status is None  # nothing is pruned


def test_the_last_request_is_what_went_out_whatever_was_decided_since(session: Talk):
    session.context()
    before = "last request: 541 tokens raw, 541 effective, 0 saved (0 pruned, 0 masked)"
    session.command("/prune", lambda asked: asked.options[0], True)
    session.answer("A long answer. " * 100)
    assert before in session.says("/context-pruning status").splitlines()
    answer = session.context()
    (line,) = [one for one in session.says("/context-pruning status").splitlines() if "last request" in one]
    raw, effective, saved = (int(number) for number in re.findall(r"\d+", line.replace(",", ""))[:3])
    assert raw > 541
    assert 0 < saved == raw - effective
    assert line.endswith("(1 pruned, 0 masked)")
    assert answer.status is not None
    assert answer.status.startswith(f"pruned {saved:,} of {raw:,} tokens")


@pytest.mark.parametrize(
    ("usage", "line"),
    [
        (None, "context: not known"),
        ({"tokens": None, "contextWindow": 10, "percent": None}, "context: not known yet, of 10 tokens"),
        ({"tokens": 3}, "context: 3 of an unknown window"),
    ],
)
def test_status_says_what_is_not_known(session: Talk, usage: dict[str, Any] | None, line: str):
    lines = session.says("/context-pruning status", usage=usage).splitlines()
    assert line in lines
    assert "last request: none yet" in lines


def test_status_names_the_thresholds_of_states(session: Talk):
    session.session.set("gate.breakEvenThresholdByState.idle", 3)
    assert "threshold 22, idle 3 LLM calls" in session.says("/context-pruning status")


@pytest.mark.parametrize(
    ("args", "key", "value", "says"),
    [
        ("off", ["enabled"], False, "Context pruning is off."),
        ("on", ["enabled"], True, "Context pruning is on."),
        ("toggle", ["enabled"], False, "Context pruning is off."),
        ("strategy dedupe off", ["strategies", "dedupe", "enabled"], False, "Strategy dedupe is off."),
        (
            "strategy error-purge off",
            ["strategies", "errorPurge", "enabled"],
            False,
            "Strategy error-purge is off.",
        ),
        (
            "strategy superseded-file-ops on",
            ["strategies", "supersededFileOps", "enabled"],
            True,
            "Strategy superseded-file-ops is on.",
        ),
        ("gate always-apply", ["gate", "mode"], "always-apply", "The gate is always-apply."),
        ("policy priced", ["policy"], "priced", "The policy is priced."),
    ],
)
def test_what_is_switched_holds_and_is_written(
    session: Talk, args: str, key: list[str], value: object, says: str
):
    assert session.says(f"/context-pruning {args}") == says
    written: Any = extension_settings()
    for name in key:
        written = written[name]
    assert written == value


@pytest.mark.parametrize(
    "args", ["maybe", "strategy other on", "strategy dedupe", "gate sometimes", "policy best", "on off"]
)
def test_what_is_not_understood_changes_nothing(session: Talk, agent_dir: Path, args: str):
    (said,) = session.command(f"/context-pruning {args}")
    assert said.level == "error"
    assert not (agent_dir / "extensions").exists()


def test_switching_off_sends_everything_and_on_again_the_same_bytes(talk: MakeTalk):
    session = talk()
    session.session.set("protections.recentTurns", 0)
    session.say("Read it twice.")
    session.call("read", path="a.txt")
    session.call("read", path="a.txt")
    session.context()
    before = dict(session.texts)
    session.command("/context-pruning off")
    session.context()
    assert session.texts == {"call_1": LONG, "call_2": LONG}
    session.command("/context-pruning on")
    assert session.context().entries == []
    assert session.texts == before


def test_what_cannot_be_written_holds_and_is_said(session: Talk, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PI_CODING_AGENT_DIR", "/dev/null/agent")
    _, warning = session.command("/context-pruning gate off")
    assert warning.level == "warning"
    assert warning.text.startswith("Not saved, so it holds for this session only: /dev/null/agent")
    assert session.session.settings.gate.mode == "off"


def test_stats_add_up_by_strategy(talk: MakeTalk):
    session = talk()
    session.session.set("protections.recentTurns", 0)
    session.say("Read it twice.")
    session.call("read", path="a.txt")
    session.call("read", path="a.txt")
    session.context()
    total, dedupe, net = session.says("/context-pruning stats").splitlines()
    assert net.startswith("net saving: not known yet")
    tokens = dedupe.removeprefix("dedupe: ")
    assert tokens.endswith(" tokens")
    assert total == f"saved in all: {tokens} (estimated)"


# ---- /pruning


def test_settings_are_shown_with_the_state(session: Talk):
    assert session.says("/pruning settings", ui=False).splitlines() == [
        "enabled             true",
        "minResultTokens     1000",
        "protectCurrentTurn  true",
        "footer              true",
        "0 outputs pruned, 0 tokens saved per request, last gate decision: none",
    ]


@pytest.mark.parametrize(
    "args", ["", "settings enabled", "settings window=5", "settings minResultTokens=few", "x"]
)
def test_pruning_needs_its_own_keys_and_values(session: Talk, agent_dir: Path, args: str):
    (said,) = session.command(f"/pruning {args}")
    assert said.level == ("error" if args else "info")
    assert not (agent_dir / "settings.json").exists()


def test_settings_go_to_the_global_file(session: Talk, agent_dir: Path):
    session.command("/pruning settings minResultTokens=5 protectCurrentTurn=off")
    written = json.loads((agent_dir / "settings.json").read_text())
    assert written == {"pruning": {"minResultTokens": 5, "protectCurrentTurn": False}}


@pytest.mark.parametrize("trusted", [True, False])
def test_settings_go_to_the_project_where_it_has_a_file(
    talk: MakeTalk, tmp_path: Path, agent_dir: Path, trusted: bool
):
    project = tmp_path / ".pi" / "settings.json"
    project.parent.mkdir()
    project.write_text("{}")
    talk(trusted=trusted).command("/pruning settings minResultTokens=5")
    assert (agent_dir / "settings.json").exists() is not trusted
    assert ("pruning" in json.loads(project.read_text())) is trusted


@pytest.mark.parametrize(
    ("option", "reply", "asks", "value"),
    [
        (0, "false", Select, ("enabled", False)),
        (1, "250", Input, ("minResultTokens", 250)),
        (3, "false", Select, ("footer", False)),
    ],
)
def test_the_picker_changes_one_key(
    session: Talk, option: int, reply: str, asks: type, value: tuple[str, object]
):
    actions = session.command("/pruning settings", lambda asked: asked.options[option], reply)
    assert isinstance(actions[2], asks)
    assert json.loads(settings_files.global_file().read_text())["pruning"] == dict([value])


@pytest.mark.parametrize("replies", [(None,), (lambda asked: asked.options[1], None)])
def test_the_picker_can_be_left(session: Talk, agent_dir: Path, replies: tuple[Any, ...]):
    session.command("/pruning settings", *replies)
    assert not (agent_dir / "settings.json").exists()


def test_the_state_tells_the_last_gate_decision(session: Talk):
    session.answer("Well.", tokens=9_500)
    session.session.compaction(session.view(window=10_000, reserve=100))
    session.token = None
    assert "compaction left out (9,500 tokens, " in session.says("/pruning settings", ui=False)


# ---- /prune


def test_prune_and_restore_by_hand(session: Talk):
    session.context()
    select, confirm, append, said = session.command("/prune", lambda asked: asked.options[0], True)
    assert isinstance(select, Select)
    assert select.options == ["1. [active] bash make test (525 tokens, 1 turn ago)"]
    assert isinstance(confirm, Confirm)
    assert "it pays." in confirm.message
    assert isinstance(append, Append)
    assert said.text.startswith("Pruned: ")
    session.context()
    assert session.texts["call_1"].startswith("[prunewise: bash output")
    select, confirm, append, said = session.command("/prune", lambda asked: asked.options[0], True)
    assert select.options[0].startswith("1. [pruned] bash make test (525 tokens, ")
    assert confirm.message.startswith("It was pruned by hand. To restore it costs ")
    assert said.text.startswith("Restored: ")
    session.context()
    assert session.texts["call_1"] == LONG
    (select,) = session.command("/prune", None)
    assert select.options[0].startswith("1. [restored] bash make test")


def test_a_prune_while_pruning_is_off_says_that_it_has_no_effect(session: Talk):
    session.command("/context-pruning off")
    session.context()
    *_, said = session.command("/prune", lambda asked: asked.options[0], True)
    assert said.text.startswith("Pruned, but without effect as long as context pruning is off: ")
    assert session.context().status is None
    assert session.texts["call_1"] == LONG
    session.command("/context-pruning on")
    session.context()
    assert session.texts["call_1"].startswith("[prunewise: bash output")


def test_prune_asks_before_it_does_anything(session: Talk):
    session.command("/prune", lambda asked: asked.options[0], False)
    session.context()
    assert session.texts["call_1"] == LONG


def test_a_prune_that_cannot_be_written_does_not_hold(session: Talk):
    *_, said = session.command("/prune", lambda asked: asked.options[0], True, OSError("no space left"))
    assert said.text == "Nothing has changed: the session cannot be written (no space left)"
    session.context()
    assert session.texts["call_1"] == LONG


def test_without_a_picker_there_is_a_report(session: Talk):
    assert session.says("/prune", ui=False) == "[active] bash make test (525 tokens, 1 turn ago)"


@pytest.mark.parametrize("ui", [True, False])
def test_nothing_to_prune_is_said(talk: MakeTalk, ui: bool):
    assert talk().says("/prune", ui=ui).startswith("There is no tool output")


# ---- dialogs


def test_a_dialog_that_is_over_is_refused(session: Talk):
    session.command("/context-pruning")
    with pytest.raises(PrunewiseError, match="give the command again"):
        session.dialogs.go_on(AnswerParams(1, None))


def test_every_completion_is_understood(session: Talk):
    for name, all_of_them in COMPLETIONS.items():
        for args in all_of_them:
            if not args.endswith("="):
                for action in session.command(f"/{name} {args}", ui=False):
                    assert action.level != "error"


@pytest.mark.parametrize("text", ["\x1b[2J", "\x1b]52;c;x\x07", "\x9b2J", "a\rb", "\x08", "\u202e"])
def test_nothing_that_a_terminal_would_obey_is_shown(text: str):
    escaped = "".join(one if one.isprintable() else ascii(one)[1:-1] for one in text)
    assert protocol.Say(f"one\n{text}").text == f"one\n{escaped}"
    assert protocol.Note("key", text, "warning").text == escaped
    asked = protocol.Confirm(text, f"{text}\ttwo")
    assert (asked.title, asked.message) == (escaped, f"{escaped}\ttwo")
