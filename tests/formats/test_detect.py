import json
from pathlib import Path

import pytest
from tests.formats.sessions import manifest

from prunewise import InputError
from prunewise.formats import detect
from prunewise.formats.reading import Json


@pytest.mark.parametrize(
    ("document", "name"),
    [
        ({"info": {"id": "ses_1"}, "messages": []}, "opencode"),
        ({"sessionId": "s", "projectHash": "h", "messages": []}, "gemini-cli"),
        ({"trajectory": [{"action": "ls", "observation": "a"}]}, "swe-agent"),
        (
            {"type": "user", "uuid": "u", "sessionId": "s", "message": {"role": "user", "parts": []}},
            "qwen-code",
        ),
        ({"type": "session", "version": 3, "id": "s", "timestamp": "t", "cwd": "/"}, "pi"),
        ([{"role": "user", "parts": [{"text": "x"}]}], "request"),
        ({"odd": 1}, None),
        ([], None),
        ("text", None),
    ],
)
def test_tells_the_format(document: Json, name: str | None):
    assert detect.detect(json.dumps(document).encode() + b"\n") == name


@pytest.mark.parametrize("head", [b"", b"\x00" * 100, b"\xff\xfe", b"plain text"])
def test_tells_nothing_of_other_files(head: bytes):
    assert detect.detect(head) is None


def test_reads_by_what_a_file_holds_or_by_name():
    data = json.dumps([{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}]).encode()
    assert detect.read_recording("a.json", data).llm_calls == 1
    assert detect.read_recording("a.json", data, "request").llm_calls == 1
    with pytest.raises(InputError, match="no opencode session"):
        detect.read_recording("a.json", b"{}", "opencode")


@pytest.mark.parametrize(
    ("format", "said"), [(None, "its format is not known"), ("x", "format 'x' is not known")]
)
def test_a_format_that_is_not_known(format: str | None, said: str):
    with pytest.raises(
        InputError, match=f"a.json: {said}; known session formats: pi, qwen-code, claude-code"
    ):
        detect.read_recording("a.json", b"{}", format)


def test_every_reader_can_be_loaded():
    for name, (told, read) in detect.READERS.items():
        assert told(b"") is False, name
        with pytest.raises(InputError):
            read("a.json", b"")


HOME = Path("/home/someone")


@pytest.mark.parametrize(
    ("environment", "agent", "folder", "pattern"),
    [
        ({}, "pi", "/home/someone/.pi/agent/sessions", "*/*.jsonl"),
        ({"PI_CODING_AGENT_DIR": "/pi"}, "pi", "/pi/sessions", "*/*.jsonl"),
        ({"PI_CODING_AGENT_DIR": "~/pi"}, "pi", "/home/someone/pi/sessions", "*/*.jsonl"),
        ({"PI_CODING_AGENT_DIR": " "}, "pi", "/home/someone/.pi/agent/sessions", "*/*.jsonl"),
        ({}, "claude-code", "/home/someone/.claude/projects", "*/*.jsonl"),
        ({"CLAUDE_CONFIG_DIR": "/c"}, "claude-code", "/c/projects", "*/*.jsonl"),
        ({}, "codex", "/home/someone/.codex/sessions", "*/*/*/rollout-*.jsonl"),
        ({"CODEX_HOME": "/x"}, "codex", "/x/sessions", "*/*/*/rollout-*.jsonl"),
        ({}, "opencode", "/home/someone/.local/share/opencode", "opencode*.db"),
        ({"XDG_DATA_HOME": "/data"}, "opencode", "/data/opencode", "opencode*.db"),
        ({}, "gemini-cli", "/home/someone/.gemini/tmp", "*/chats/*.json*"),
        ({}, "copilot", "/home/someone/.copilot/session-state", "*/events.jsonl"),
        ({}, "qwen-code", "/home/someone/.qwen/projects", "*/chats/*.jsonl"),
    ],
)
def test_where_agents_keep_their_sessions(environment: dict[str, str], agent: str, folder: str, pattern: str):
    found = {name: (where, what) for name, where, what in detect.known_session_folders(environment, HOME)}
    assert found[agent] == (Path(folder), pattern)


NAMES = {"gemini": "gemini-cli", "gemini-contents": "request"}
"""What the corpus calls formats otherwise."""


@pytest.mark.corpus
def test_corpus(shared: Path):
    for file, row in manifest(shared).items():
        with (shared / "corpus" / file).open("rb") as data:
            assert detect.detect(data.read(detect.HEAD)) == NAMES.get(row["format"], row["format"]), file
