"""Superseded outputs, shell commands read too."""

from typing import Any

import pytest
from tests import build
from tests.build import bash, edit, read, used, write

from prunewise import markers
from prunewise.strategies.sorting import sort_of
from prunewise.strategies.superseded_outputs import SupersededOutputs
from prunewise.tools import CODEX


def stale(*natives: Any):
    found = SupersededOutputs().advance(build.transcript(*natives, cwd="/w"))
    return {one.exchange.call.id: one.reason for one in found}


@pytest.mark.parametrize(
    ("natives", "expected"),
    [
        ([read("a", "f"), read("b", "f")], {"a": markers.READ_AGAIN}),
        ([read("a", "f"), bash("b", "cat f")], {"a": markers.READ_AGAIN}),
        ([bash("a", "sed -n 1,20p f"), bash("b", "cat f")], {"a": markers.READ_AGAIN}),
        ([bash("a", "cat f"), bash("b", "sed -n 1,20p f", "line of output\n" * 20)], {}),
        ([read("a", "f"), bash("b", "cp g f", "")], {"a": markers.CHANGED_AFTER}),
        ([read("a", "f"), bash("b", "sed -i s/a/b/ f")], {}),  # it succeeds also where nothing matches
        ([bash("a", "cat f g"), edit("b", "f")], {}),
        ([bash("a", "cat f && echo $(make)"), edit("b", "f")], {}),  # what else it says is not about the file
        ([bash("a", "cat f g"), edit("b", "f"), edit("c", "g")], {"a": markers.CHANGED_AFTER, "b": None}),
        ([write("a", "f"), write("b", "f")], {"a": markers.CHANGED_AGAIN}),
        ([read("a", "f"), edit("b", "f", error=True)], {}),
        ([read("a", "f"), bash("b", "rm f", error=True)], {}),
        ([read("a", "f"), bash("b", "cat f | grep x")], {}),
        ([read("a", "f"), bash("b", "cat f; make", "cat: f: No such file\nmade")], {}),
        ([read("a", "f"), bash("b", "frobnicate")], {}),
    ],
)
def test_what_is_superseded(natives: Any, expected: Any):
    found = stale(*natives)
    assert found == {call: reason for call, reason in expected.items() if reason is not None}


def test_step_by_step_it_says_the_same():
    natives = build.flat(read("a", "f"), bash("b", "cat f"), edit("c", "f"))
    transcript = build.transcript(cwd="/w")
    strategy, found = SupersededOutputs(), []
    for message in build.messages(natives):
        transcript.extend([message])
        found += [one.exchange.call.id for one in strategy.advance(transcript)]
    assert found == list(stale(natives))


@pytest.mark.parametrize(
    ("name", "arguments", "sort"),
    [
        ("exec_command", {"cmd": "rg x"}, "search"),
        ("shell", {"command": ["bash", "-lc", "ls"]}, "list"),
        ("shell", {"command": ["ls"]}, "other"),
        ("shell", {"command": ["/bin/zsh", "-c", "ls"]}, "list"),
        ("shell", {"command": ["python", "-c", "ls > a.py"]}, "other"),
        ("shell", {"command": ["grep", "-c", "rm a.py"]}, "other"),
        ("exec_command", {"cmd": "cat f", "workdir": "/x"}, "read"),
        ("write_stdin", {"chars": ""}, "follow"),
        ("grep_search", {"pattern": "x"}, "search"),
        ("grep_search", {"pattern": "x", "context": 50}, "read"),
        ("frobnicate", {}, "other"),
        ("exec", {"input": 'text(await tools.exec_command({cmd: "cat f", yield_time_ms: 9}))'}, "read"),
        ("exec", {"input": "await tools.exec_command({'cmd': 'rg x'})"}, "search"),
        ("exec", {"input": 'f({cmd: "cat f"}); f({cmd: "ls"})'}, "other"),
        ("exec", {"input": "1 + 1"}, "other"),
        ("shell", {"command": "open src/f.py 100"}, "read"),
        ("shell", {"command": "goto 200"}, "read"),
        ("shell", {"command": "scroll_down"}, "read"),
        ("open", {"path": "f"}, "read"),
        ("scroll_up", {}, "read"),
        ("read_many_files", {"paths": ["f"]}, "read"),
        ("str_replace_editor", {"command": "view", "path": "f"}, "read"),
        ("str_replace_based_edit_tool", {"command": "create", "path": "f"}, "change"),
        ("str_replace_editor", {"command": "frobnicate", "path": "f"}, "other"),
        ("str_replace_editor", {"path": "f"}, "other"),
        ("read_file", {"file_path": "f"}, "read"),
    ],
)
def test_sorts(name: Any, arguments: Any, sort: Any):
    transcript = build.transcript(used("a", name, arguments), vocabulary=CODEX)
    assert sort_of(transcript.exchanges[0], transcript) == sort


def test_what_refers_back_has_no_operation():
    from prunewise.strategies.sorting import operations_of
    from prunewise.tools import CLAUDE_CODE

    natives = used("a", "Read", {"file_path": "f"}, "File unchanged since last read")
    transcript = build.transcript(natives, vocabulary=CLAUDE_CODE)
    assert operations_of(transcript.exchanges[0], transcript) == ()
