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
CODEX = ("sessions/*/*/*/rollout-*.jsonl", "archived_sessions/**/rollout-*.jsonl")
GEMINI = ("tmp/*/chats/*.json*", "tmp/*/chats/*/*.json*")
CLAUDE = ("projects/*/*.jsonl", "projects/*/*/subagents/**/*.jsonl")
QWEN = ("projects/*/chats/*.jsonl", "projects/*/subagents/**/*.jsonl")
EVENTS = ("session-state/*/events.jsonl",)


def below(base: str, *patterns: str) -> list[str]:
    return [f"{base}/{pattern}" for pattern in patterns]


@pytest.mark.parametrize(
    ("environment", "agent", "places"),
    [
        ({}, "pi", ["/home/someone/.pi/agent/sessions/*/*.jsonl"]),
        ({"PI_CODING_AGENT_DIR": "/pi"}, "pi", ["/pi/sessions/*/*.jsonl"]),
        ({"PI_CODING_AGENT_DIR": "~/pi"}, "pi", ["/home/someone/pi/sessions/*/*.jsonl"]),
        ({"PI_CODING_AGENT_DIR": " "}, "pi", ["/home/someone/.pi/agent/sessions/*/*.jsonl"]),
        (
            {"PI_CODING_AGENT_SESSION_DIR": "/s"},
            "pi",
            ["/home/someone/.pi/agent/sessions/*/*.jsonl", "/s/*.jsonl"],
        ),
        (
            {},
            "claude-code",
            [*below("/home/someone/.claude", *CLAUDE), *below("/home/someone/.config/claude", *CLAUDE)],
        ),
        (
            {"XDG_CONFIG_HOME": "/x"},
            "claude-code",
            [*below("/home/someone/.claude", *CLAUDE), *below("/x/claude", *CLAUDE)],
        ),
        ({"CLAUDE_CONFIG_DIR": "/c"}, "claude-code", below("/c", *CLAUDE)),
        (
            {"CLAUDE_CONFIG_DIR": "/a, ~/b"},
            "claude-code",
            [*below("/a", *CLAUDE), *below("/home/someone/b", *CLAUDE)],
        ),
        ({"CLAUDE_CONFIG_DIR": "/a,/a"}, "claude-code", below("/a", *CLAUDE)),
        ({}, "codex", below("/home/someone/.codex", *CODEX)),
        ({"CODEX_HOME": "/x"}, "codex", below("/x", *CODEX)),
        ({}, "opencode", ["/home/someone/.local/share/opencode/opencode*.db"]),
        ({"XDG_DATA_HOME": "/data"}, "opencode", ["/data/opencode/opencode*.db"]),
        (
            {"XDG_DATA_HOME": "/data", "OPENCODE_DB": "/o/my.db"},
            "opencode",
            ["/data/opencode/opencode*.db", "/o/my.db"],
        ),
        ({}, "gemini-cli", below("/home/someone/.gemini", *GEMINI)),
        ({"GEMINI_CLI_HOME": "/g"}, "gemini-cli", below("/g/.gemini", *GEMINI)),
        (
            {},
            "copilot",
            [
                *below("/home/someone/.copilot", *EVENTS),
                *below("/home/someone/.local/state/.copilot", *EVENTS),
            ],
        ),
        ({"COPILOT_HOME": "/p", "XDG_STATE_HOME": "/x"}, "copilot", below("/p", *EVENTS)),
        (
            {"XDG_STATE_HOME": "/x"},
            "copilot",
            [*below("/home/someone/.copilot", *EVENTS), *below("/x/.copilot", *EVENTS)],
        ),
        ({}, "qwen-code", below("/home/someone/.qwen", *QWEN)),
        ({"QWEN_HOME": "/q"}, "qwen-code", below("/q", *QWEN)),
        ({"QWEN_HOME": "/q", "QWEN_RUNTIME_DIR": "/r"}, "qwen-code", below("/r", *QWEN)),
    ],
)
def test_where_agents_keep_their_sessions(environment: dict[str, str], agent: str, places: list[str]):
    found = detect.known_session_folders(environment, HOME)
    assert [str(where / what) for name, where, what in found if name == agent] == places


def test_a_folder_that_is_there_may_have_a_comma_in_its_name(tmp_path: Path):
    (tmp_path / "a,b").mkdir()
    found = detect.known_session_folders({"CODEX_HOME": f"{tmp_path}/a,b"}, HOME)
    assert {where.parent.name for name, where, _ in found if name == "codex"} == {"a,b"}


@pytest.mark.parametrize(
    ("files", "agent", "kept", "folders"),
    [
        ([".codex/sessions/2026/03/01/rollout-a.jsonl"], "codex", 1, [".codex/sessions"]),
        (
            [".codex/sessions/2026/03/01/rollout-a.jsonl", ".codex/archived_sessions/rollout-b.jsonl"],
            "codex",
            2,
            [".codex/sessions", ".codex/archived_sessions"],
        ),
        (
            [".codex/sessions/2026/03/01/rollout-a.jsonl", ".codex/archived_sessions/rollout-a.jsonl"],
            "codex",
            1,
            [".codex/sessions"],
        ),
        ([".codex/archived_sessions/2026/rollout-b.jsonl"], "codex", 1, [".codex/archived_sessions"]),
        (
            [".gemini/tmp/p/chats/session-1.json", ".gemini/tmp/p/chats/parent/one.jsonl"],
            "gemini-cli",
            2,
            [".gemini/tmp"],
        ),
        (
            [".claude/projects/p/s.jsonl", ".claude/projects/p/s/subagents/agent-1.jsonl"],
            "claude-code",
            2,
            [".claude/projects"],
        ),
        (
            [".claude/projects/p/s.jsonl", ".config/claude/projects/p/s.jsonl"],
            "claude-code",
            2,
            [".claude/projects", ".config/claude/projects"],
        ),
        ([".claude/projects/p/s/tool-results/x.txt"], "claude-code", 0, [".claude/projects"]),
    ],
)
def test_what_agents_keep(tmp_path: Path, files: list[str], agent: str, kept: int, folders: list[str]):
    for file in files:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text("{}")
    (found,) = detect.kept_sessions({}, tmp_path)
    assert (found.agent, len(found.files)) == (agent, kept)
    assert found.folders == [tmp_path / folder for folder in folders]


NAMES = {"gemini": "gemini-cli", "gemini-contents": "request"}
"""What the corpus calls formats otherwise."""


@pytest.mark.corpus
def test_corpus(shared: Path):
    for file, row in manifest(shared).items():
        with (shared / "corpus" / file).open("rb") as data:
            assert detect.detect(data.read(detect.HEAD)) == NAMES.get(row["format"], row["format"]), file
