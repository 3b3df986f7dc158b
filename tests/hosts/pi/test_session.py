"""The engine's side of a pi session: what it asks to change, and when it has to be told anew."""

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
from tests.hosts.pi.support import LONG, Talk

from prunewise.engine import Engine, Moment
from prunewise.errors import RecallError
from prunewise.hosts.pi.prices import Cost, Model
from prunewise.hosts.pi.protocol import Carried, Halves, RecallParams, Seen
from prunewise.hosts.pi.session import WrongVersionError

MakeTalk = Callable[..., Talk]


@pytest.fixture(autouse=True)
def strategies(agent_dir: Path):
    """Nothing is too recent to be pruned."""
    file = agent_dir / "extensions" / "dynamic-context-pruning.json"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps({"protections": {"recentTurns": 0}}))


def reading_twice(talk: Talk) -> Talk:
    talk.say("Read it twice.")
    talk.call("read", path="a.txt")
    talk.call("read", path="a.txt")
    return talk


# ---- requests


def test_a_duplicate_goes_out_as_a_marker_and_is_told_once(talk: MakeTalk):
    session = reading_twice(talk())
    first = session.context()
    assert session.texts == {"call_1": session.edits[2][0].value, "call_2": LONG}
    assert session.texts["call_1"].startswith("[prunewise: read output")
    assert [one.custom_type.split(":")[1] for one in first.entries] == ["decision", "stats"]
    assert [note.key for note in first.notes] == ["active"]
    assert first.status is not None
    second = session.context()
    assert (second.edits, second.entries, second.notes) == ([], [], [])
    session.answer("Fine.")
    session.say("Go on.")
    third = session.context()
    assert (third.edits, third.entries) == ([], [])


def test_the_reference_is_the_line_in_the_file(talk: MakeTalk):
    session = reading_twice(talk())
    session.context()
    assert session.file is not None
    line = int(session.texts["call_1"].split("recall #")[1].split(" ")[0])
    assert json.loads(session.file.read_text().splitlines()[line - 1])["message"]["toolCallId"] == "call_1"
    (block,) = session.session.recall(RecallParams(f"#{line}")).content
    assert block == {"type": "text", "text": LONG}


@pytest.mark.parametrize("options", [{"in_memory": True}, {"parent": "elsewhere.jsonl"}])
def test_the_reference_is_the_entry_id_in_memory_and_in_a_fork(talk: MakeTalk, options: dict[str, object]):
    session = reading_twice(talk(**options))
    session.context()
    reference = session.texts["call_1"].split("recall ")[1].split(" ")[0]
    assert reference == session.branch[2]["id"]
    (block,) = session.session.recall(RecallParams(reference)).content
    assert block["text"] == LONG


def test_a_message_of_no_entry_is_never_pruned(talk: MakeTalk):
    session = reading_twice(talk())
    view = session.view()
    messages = [Seen(None, record["message"]) for record in session.branch]
    answer = session.session.context(msgspec.structs.replace(view, messages=messages))
    assert answer.edits == []


def test_contents_that_are_sent_go_before_those_of_the_entry(talk: MakeTalk):
    session = reading_twice(talk())
    view = session.view()
    other = {**session.branch[2]["message"], "content": [{"type": "text", "text": "short"}]}
    messages = [*view.messages[:2], Seen(view.messages[2].id, other), *view.messages[3:]]
    assert session.session.context(msgspec.structs.replace(view, messages=messages)).edits == []


def test_entries_that_are_not_in_the_file_have_to_be_sent(talk: MakeTalk):
    session = reading_twice(talk())
    view = session.view()
    assert (
        session.session.context(msgspec.structs.replace(view, messages=[Seen("ffffffff")])).resync
        == "contents"
    )


@pytest.mark.parametrize("token", [0, 7])
def test_another_base_than_what_the_engine_holds_is_told_anew(talk: MakeTalk, token: int):
    session = reading_twice(talk())
    session.context()
    session.token = token
    assert session.context().resync == "keys"
    session.token = None
    answer = session.context()
    assert answer.resync is None
    assert [one.position for one in answer.edits] == [2]


def test_entries_that_did_not_arrive_do_not_hold(talk: MakeTalk):
    session = reading_twice(talk())
    session.take(session.session.context(session.view()), append=False)
    session.token = None
    answer = session.context()
    assert [one.custom_type.split(":")[1] for one in answer.entries] == ["decision", "stats"]


def test_a_new_process_goes_on_with_the_same_bytes(talk: MakeTalk):
    session = reading_twice(talk())
    session.context()
    before = dict(session.texts)
    session.greet()
    session.session.warm()
    answer = session.context()
    assert session.texts == before
    assert answer.entries == []


def test_decisions_are_those_of_the_branch(talk: MakeTalk):
    session = talk()
    session.say("Read it twice.")
    session.call("read", path="a.txt")
    before = session.leaf
    session.call("read", path="a.txt")
    session.context()
    session.leaf = before
    session.say("Something else.")
    session.context()
    assert session.texts == {"call_1": LONG}


def test_the_entries_of_the_other_extension_are_followed(talk: MakeTalk):
    session = talk()
    session.say("Read it.")
    session.call("bash", command="ls")
    key = "dedupe:tool_result_content:call_1"
    data = {
        "idempotencyKey": key,
        "strategyId": "dedupe",
        "correlation": {"type": "toolCallId", "toolCallId": "call_1"},
        "kind": "tool_result_content",
        "reason": "dup",
        "placeholder": "[pruned]",
        "createdAt": "2026-01-01T00:00:00.000Z",
    }
    session.add("custom", customType="dynamic-context-pruning:decision", data=data)
    session.context()
    assert session.texts == {"call_1": "[pruned]"}
    session.add("custom", customType="dynamic-context-pruning:restore", data={"idempotencyKey": key})
    session.context()
    assert session.texts == {"call_1": LONG}


# ---- masking


def masked(session: Talk, **more: int) -> Talk:
    session.say("Look.")
    session.call("bash", "x\n" * 4000, command="x")
    session.answer("Seen.", tokens=9_500)
    session.say("Go on.")
    session.context(window=10_000, reserve=1000, **more)
    return session


def test_masking_engages_above_the_threshold_and_stays(talk: MakeTalk):
    session = masked(talk())
    assert session.texts["call_1"].startswith("[prunewise: shell output shortened")
    assert session.session.carried.engaged
    session.answer("Fine.", tokens=500)
    session.say("Go on.")
    session.context(window=10_000, reserve=1000)
    assert session.texts["call_1"].startswith("[prunewise: shell output shortened")


def test_a_model_without_a_window_has_nothing_masked(talk: MakeTalk):
    session = talk()
    session.say("Look.")
    session.call("bash", "x\n" * 4000, command="x")
    session.answer("Seen.", tokens=50_000)
    session.say("Go on.")
    session.context(window=None)
    assert session.texts["call_1"].startswith("x\n")
    assert not session.session.compaction(session.view(window=None)).cancel


def test_a_shorter_branch_is_no_compaction(talk: MakeTalk):
    session = masked(talk())
    session.call("bash", "y\n" * 4000, command="y")
    end = session.leaf
    session.context(window=10_000, reserve=1000)
    session.leaf = session.branch[3]["id"]
    session.say("Back.")
    session.context(window=100_000, reserve=1000)
    assert session.texts["call_1"].startswith("[prunewise: shell output shortened")
    session.leaf = end
    session.context(window=100_000, reserve=1000, compacted=True)
    assert session.texts["call_1"].startswith("x\n")


def test_an_engine_that_comes_back_is_still_engaged(talk: MakeTalk):
    session = masked(talk())
    session.greet(carried=session.session.carried)
    session.context(window=100_000, reserve=1000)
    assert session.texts["call_1"].startswith("[prunewise: shell output shortened")


def test_an_engine_that_comes_back_hears_of_the_compaction_that_ran_meanwhile(talk: MakeTalk):
    session = masked(talk())
    session.greet(carried=session.session.carried)
    session.session.warm()
    answer = session.context(window=100_000, reserve=1000, compacted=True)
    assert session.texts["call_1"].startswith("x\n")
    assert answer.carried is not None
    assert not answer.carried.engaged


def test_without_the_tool_recall_nothing_is_pruned_and_no_compaction_left_out(talk: MakeTalk):
    session = masked(talk())
    marker = session.texts["call_1"]
    assert marker.startswith("[prunewise")
    told = [session.context(window=10_000, reserve=1000, tools="read bash") for _ in range(2)]
    assert session.texts["call_1"].startswith("x\n")
    assert told[0].status is None
    assert {note.key for answer in told for note in answer.notes} == {"recall"}
    session.answer("More.", tokens=9_500)
    assert not session.take(
        session.session.compaction(session.view(window=10_000, reserve=1000, tools=""))
    ).cancel
    session.context(window=10_000, reserve=1000, tools="read recall")
    assert session.texts["call_1"] == marker


@pytest.mark.parametrize(("window", "cancel"), [(10_000, True), (5_000, False)])
def test_the_prune_gate(talk: MakeTalk, window: int, cancel: bool):
    session = talk()
    session.say("Look.")
    session.call("bash", "x\n" * 4000, command="x")
    session.answer("Seen.", tokens=window - 500)
    session.say("Go on.")
    session.answer("Well.", tokens=window - 400)
    answer = session.session.compaction(session.view(window=window, reserve=1100 if cancel else 2400))
    assert answer.cancel is cancel
    assert session.session.pruner.engaged is cancel


def test_the_prune_gate_lets_compactions_through_where_masking_is_off(talk: MakeTalk):
    session = talk(halves=Halves(masking=False))
    session.say("Look.")
    session.call("bash", "x\n" * 4000, command="x")
    session.answer("Seen.", tokens=9_500)
    session.say("Go on.")
    assert not session.session.compaction(session.view(window=10_000, reserve=1000)).cancel


# ---- the greeting


def test_another_version_of_the_protocol_is_refused(talk: MakeTalk):
    session = talk()
    with pytest.raises(WrongVersionError, match="run `prunewise pi install` again"):
        session.greet(protocol=99)


def test_a_half_is_off_where_the_installer_said_so_and_no_file_does(talk: MakeTalk, agent_dir: Path):
    session = talk(halves=Halves(strategies=False, masking=False))
    assert not session.session.settings.enabled
    assert not session.session.settings.pruning.enabled
    (agent_dir / "settings.json").write_text(json.dumps({"pruning": {"enabled": True}}))
    session.greet()
    assert not session.session.settings.enabled
    assert session.session.settings.pruning.enabled


def test_the_settings_of_a_project_that_is_not_trusted_do_not_count(talk: MakeTalk, tmp_path: Path):
    (tmp_path / ".pi").mkdir()
    (tmp_path / ".pi" / "settings.json").write_text(json.dumps({"pruning": {"minResultTokens": 7}}))
    assert talk().session.settings.pruning.min_result_tokens == 7
    assert talk(trusted=False).session.settings.pruning.min_result_tokens == 1000


def test_settings_that_cannot_be_written_hold_and_outlive_the_process(
    talk: MakeTalk, monkeypatch: pytest.MonkeyPatch
):
    session = reading_twice(talk())
    monkeypatch.setenv("PI_CODING_AGENT_DIR", "/dev/null/agent")
    problem = session.session.set("enabled", False)
    assert problem is not None
    session.context()
    assert session.texts["call_1"] == LONG
    assert session.session.carried == Carried(unsaved={"enabled": False})
    session.greet(carried=session.session.carried)
    session.context()
    assert session.texts["call_1"] == LONG


def test_a_session_that_pi_has_not_written_yet_is_no_error(talk: MakeTalk):
    session = talk()
    session.session.warm()
    assert session.session.context(session.view()).edits == []
    with pytest.raises(RecallError):
        session.session.recall(RecallParams("#3"))


def test_problems_of_the_settings_are_told(talk: MakeTalk, agent_dir: Path):
    (agent_dir / "settings.json").write_text(json.dumps({"pruning": {"minResultTokens": "many"}}))
    (note,) = talk().session.context(talk().view()).notes
    assert "minResultTokens" in note.text


@pytest.mark.parametrize(("name", "issued"), [("0a1b2c3d4e5f", True), ("#7", False), ("a b", False)])
def test_an_id_is_only_a_reference_where_it_reads_as_one(talk: MakeTalk, name: str, issued: bool):
    session = talk(in_memory=True)
    session.session.set("protections.recentTurns", 0)
    session.say("Read it twice.")
    session.call("read", path="a.txt")
    session.records[-1]["id"] = session.leaf = name
    session.call("read", path="a.txt")
    session.context()
    assert (session.texts["call_1"] != LONG) is issued
    if issued:
        assert session.session.recall(RecallParams(name)).content == [{"type": "text", "text": LONG}]


# ---- who answers, and since when the cache cools


def moments_of(monkeypatch: pytest.MonkeyPatch) -> list[Moment]:
    """The moments that engines are told from now on."""
    found: list[Moment] = []
    verdict = Engine.verdict
    monkeypatch.setattr(
        Engine, "verdict", lambda engine, moment: [found.append(moment), verdict(engine, moment)][1]
    )
    return found


def test_the_engine_is_told_who_answers_and_when_nothing_can_be_cached(
    talk: MakeTalk, monkeypatch: pytest.MonkeyPatch
):
    one, other = Model("p", "m", cost=Cost(2, 10, 0.2, 2.5)), Model("p", "n")
    session = talk(asked=one)
    session.say("Hello.")
    session.context(asked=one, tools="read bash recall")
    session.answer([])
    moments = moments_of(monkeypatch)
    session.context(asked=one, tools="read bash recall")
    session.context(asked=one, tools="read recall")
    session.context(asked=other, tools="read bash recall")
    session.context(asked=one, tools="read bash recall", compacted=True)
    assert [(one.model, one.provider, one.cold) for one in moments] == [
        ("m", "p", False),
        ("m", "p", True),
        ("n", "p", True),
        ("m", "p", True),
    ]
    assert session.session.prices.prices_for("m", "p").dollars_per_million == 2


def test_only_an_answer_that_counts_starts_the_clock(talk: MakeTalk, monkeypatch: pytest.MonkeyPatch):
    session = talk()
    monkeypatch.setattr("time.time", lambda: 1000.0)
    session.say("Hello.")
    session.context()
    session.answer([], at=400_000)
    session.context()
    session.answer([], at=900_000, stop="error")
    moments = moments_of(monkeypatch)
    session.context()
    session.answer([], at=950_000, stop="aborted")
    session.context()
    assert [one.seconds_since_call for one in moments] == [600.0, 600.0]


def test_the_footer_tells_what_was_really_saved(talk: MakeTalk):
    session = talk()
    for key, value in (("protections.recentTurns", 0), ("gate.mode", "always-apply")):
        session.session.set(key, value)
    session.say("Read it.")
    session.call("read", LONG * 5, path="a.txt")
    session.call("read", LONG * 5, path="a.txt")
    assert "net" not in (session.context().status or "")
    session.answer([], usage={"input": 0, "output": 10, "cacheRead": 0, "cacheWrite": 3600})
    status = session.context().status
    assert status is not None
    assert re.fullmatch(r"pruned [\d,]+ of [\d,]+ tokens, net \+\d\d\.\d%", status)


# ---- the cache


def stamp(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")


@pytest.mark.parametrize("in_memory", [False, True])
@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize(
    ("kind", "usage", "seconds"),
    [
        ("cache_warm", {"input": 0, "output": 1, "cacheRead": 5000}, 60),
        ("cache_warm", {"input": 0, "output": 1, "cacheWrite": 5000}, 60),
        ("cache_warm", {"input": 0, "output": 0}, 1500),
        ("side_question", {"input": 10, "output": 90, "cacheRead": 5000}, 60),
        ("title", {"input": 300, "output": 9}, 1500),
    ],
)
def test_the_clock_knows_of_requests_beside_the_conversation(
    talk: MakeTalk, *, kind: str, usage: dict[str, int], seconds: float, restarted: bool, in_memory: bool
):
    session = talk(in_memory=in_memory)
    session.say("Go on.")
    session.call("read", path="a.txt")
    session.answer("Done.", at=1_000_000_000, usage={"input": 10, "cacheRead": 5000})
    if restarted:
        session.context()
    for after in (900, 1440):
        session.add(
            "usage", kind=kind, provider="p", model="m", usage=usage, timestamp=stamp(1_000_000 + after)
        )
    session.say("And now?")
    if restarted:
        session.greet()
        session.session.warm()
    session.context()
    clock = session.session.pruner._clock
    assert clock.ask(1_001_500.0, session.session.caller).seconds_since_call == seconds


@pytest.mark.parametrize(("told", "is_long"), [("long", True), ("short", False), ("", False), (None, False)])
def test_the_retention_that_pi_asks_for_is_known(
    talk: MakeTalk, monkeypatch: pytest.MonkeyPatch, told: str | None, is_long: bool
):
    if told is None:
        monkeypatch.delenv("PI_CACHE_RETENTION", raising=False)
    else:
        monkeypatch.setenv("PI_CACHE_RETENTION", told)
    session = talk()
    session.say("Go on.")
    session.context()
    clock = session.session.pruner._clock
    assert clock.ask(1.0, session.session.caller).long_lived is is_long
    session.session.set("policy", "priced")
    assert session.session.pruner._clock.long_lived is is_long


# ---- settings that are changed in their files


@pytest.mark.parametrize(
    ("text", "expected", "warned"),
    [
        ('{"enabled": false}', True, False),
        ('{"enabled": true}', False, False),
        ('{"strategies": {"dedupe": {"enabled": false}}}', False, False),
        ('{"enabled": fal', False, True),
        ('{"enabled": "no"}', False, True),
    ],
)
def test_settings_are_read_anew_when_their_file_has_changed(
    talk: MakeTalk, agent_dir: Path, text: str, expected: bool, warned: bool
):
    path = agent_dir / "extensions" / "dynamic-context-pruning.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text('{"protections": {"recentTurns": 0}, "gate": {"mode": "off"}}')
    session = talk()
    session.say("Read it.")
    session.call("read", path="a.txt")
    session.call("read", path="a.txt")
    session.context()
    assert session.texts["call_1"] != LONG
    path.write_text(text)
    session.say("And now?")
    answer = session.context()
    assert (session.texts["call_1"] == LONG) == expected
    assert bool([note for note in answer.notes if "hold" in note.text]) == warned
