"""What markers claim of files, through the public face: nothing that is not so, in any format and policy."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import build

from prunewise import Policy, Pruner, markers, tools
from prunewise.strategies.superseded_file_ops import SupersededFileOps
from prunewise.strategies.superseded_outputs import SupersededOutputs

Call = tuple[str, dict[str, Any], str]


def rows(first: int, last: int) -> str:
    """The lines of a file, each of them another one."""
    return "".join(
        f"def step_{number}(state): return state + {number * 7}\n" for number in range(first, last + 1)
    )


def numbered(first: int, last: int) -> str:
    """The same lines with their numbers."""
    lines = enumerate(rows(first, last).splitlines(), start=first)
    return "".join(f"{number:6}\t{line}\n" for number, line in lines)


WHOLE, ANOTHER = rows(1, 40), "".join(f"another file, line {number}\n" for number in range(60))
READ: Call = ("read", {"path": "a.py"}, WHOLE)
LATE: Call = ("read", {"path": "a.py", "offset": 3000, "limit": 40}, rows(3000, 3039))
OTHERWISE: Call = ("read", {"path": "a.py"}, rows(1, 2100).replace("state", "it"))
"""As much as pi shows at most, so it may go on; and changed meanwhile, so that it holds no line of before."""
CAT: Call = ("bash", {"command": "cat a.py"}, WHOLE)
COMMON = ("pi", "anthropic", "openai-chat", "openai-responses", "gemini")


def sh(command: str, output: str = "", **more: Any) -> Call:
    return ("bash", {"command": command, **more}, output)


def answers(format: str, calls: list[Call]) -> list[Any]:
    """Calls with their results, none of them flagged as failed."""
    opening = "The task. " + "context " * 30_000
    if format == "gemini":
        sent: list[Any] = [{"role": "user", "parts": [{"text": opening}]}]
    else:
        sent = [{"role": "user", "content": opening}]
    for number, (name, arguments, output) in enumerate(calls):
        call_id, text = f"c{number}", json.dumps(arguments)
        if format == "pi":
            sent += build.used(call_id, name, arguments, output)
            sent += [build.user("on")] if number % 9 == 0 else []
        elif format == "anthropic":
            sent += [
                {
                    "role": "assistant",
                    "content": [{"type": "tool_use", "id": call_id, "name": name, "input": arguments}],
                },
                {
                    "role": "user",
                    "content": [{"type": "tool_result", "tool_use_id": call_id, "content": output}],
                },
            ]
        elif format == "openai-chat":
            called = {"id": call_id, "type": "function", "function": {"name": name, "arguments": text}}
            sent += [
                {"role": "assistant", "content": None, "tool_calls": [called]},
                {"role": "tool", "tool_call_id": call_id, "content": output},
            ]
        elif format == "openai-responses":
            sent += [
                {"type": "function_call", "call_id": call_id, "name": name, "arguments": text},
                {"type": "function_call_output", "call_id": call_id, "output": output},
            ]
        else:
            answer = {"name": name, "id": call_id, "response": {"output": output}}
            sent += [
                {
                    "role": "model",
                    "parts": [{"functionCall": {"name": name, "args": arguments, "id": call_id}}],
                },
                {"role": "user", "parts": [{"functionResponse": answer}]},
            ]
    return sent


FILLING: list[Call] = [sh(f"echo {number}", f"{number} " + "x" * 40) for number in range(12)]


def claims(format: str, policy: str, calls: list[Call], *strategies: str) -> set[str]:
    """The reasons with which the first call's output goes, whenever it does."""
    settings: dict[str, Any] = {"policy": policy, "gate": {"mode": "always-apply"}}
    if policy == "documented":
        settings["protections"] = {"recentTurns": 0}
    pruner, said = Pruner(format, Policy(settings), cwd="/w"), set[str]()
    sent = answers(format, calls + FILLING)
    for end in range(3, len(sent) + 1, 2):
        for decision in pruner.project(sent[:end], now=1e9 + end).decisions:
            if decision.target[0] == "c0" and decision.strategy_id in strategies:
                said.add(decision.reason)
    return said


NOTICE = "\n[Showing lines 1-50 of 9000. Use offset=51 to continue.]"

CUT: dict[str, list[Call]] = {
    "a notice at the end": [LATE, ("read", {"path": "a.py"}, ANOTHER + NOTICE)],
    "cut without a word": [LATE, ("read", {"path": "a.py"}, rows(1, 2000))],
    "fewer lines than asked for": [
        ("read", {"path": "a.py", "offset": 301, "limit": 150}, rows(301, 450)),
        ("read", {"path": "a.py", "offset": 1, "limit": 500}, rows(1, 300)),
    ],
    "a middle that was left out": [
        LATE,
        ("read", {"path": "a.py"}, rows(1, 900) + "[2,500 lines truncated]\n" + rows(3900, 3950)),
    ],
    "a preview": [
        LATE,
        ("read", {"path": "a.py"}, "<persisted-output>\nPreview:\n" + rows(1, 50) + "</persisted-output>"),
    ],
    "a stub": [READ, ("read", {"path": "a.py"}, "File unchanged since last read.")],
    "dots for the rest": [READ, ("read", {"path": "a.py"}, rows(1, 20) + "...\n" + rows(38, 80))],
    "an empty output": [READ, ("read", {"path": "a.py", "limit": 0}, "")],
    "a limit of nothing, with a notice": [
        READ,
        ("read", {"path": "a.py", "limit": 0}, "[40 more lines in file. Use offset=1 to continue.]"),
    ],
    "a negative offset": [READ, ("read", {"path": "a.py", "offset": -50}, rows(3950, 4000))],
    "lines in another word": [READ, ("read", {"path": "a.py", "lines": "1-9"}, rows(1, 9))],
    "an end in another word": [READ, ("read", {"path": "a.py", "end_line": 9}, rows(1, 9))],
    "something else that is asked for": [READ, ("read", {"path": "a.py", "symbol": "step_3"}, rows(3, 3))],
    "a negative limit": [READ, ("read", {"path": "a.py", "limit": -50}, rows(3950, 4000))],
    "an offset in words": [READ, ("read", {"path": "a.py", "offset": "30"}, rows(30, 90))],
    "an offset beyond the end": [
        READ,
        ("read", {"path": "a.py", "offset": 10**9}, "Offset 1000000000 is beyond end of file"),
    ],
    "a limit beyond all bounds": [LATE, ("read", {"path": "a.py", "limit": 10**400}, rows(1, 50))],
    "another part": [READ, ("read", {"path": "a.py", "offset": 41, "limit": 40}, rows(41, 80))],
    "lines that look alike, further down": [
        ("read", {"path": "a.py", "offset": 300, "limit": 3}, "}\n" * 300),
        ("read", {"path": "a.py", "limit": 400}, "}\n" * 301),
    ],
    "numbered lines, a part": [READ, ("read", {"path": "a.py"}, numbered(1, 30))],
    "numbered lines, with one missing": [
        READ,
        ("read", {"path": "a.py"}, numbered(1, 20) + numbered(22, 60)),
    ],
    "numbered lines, with a gap": [
        ("read", {"path": "a.py", "offset": 1, "limit": 40}, WHOLE),
        ("read", {"path": "a.py", "offset": 1, "limit": 60}, numbered(1, 20) + "⋮\n" + numbered(41, 80)),
    ],
    "what a cut one showed": [
        ("read", {"path": "a.py"}, rows(1, 20) + "[2,000 lines omitted]\n" + rows(2020, 2040)),
        ("read", {"path": "a.py", "limit": 60}, rows(1, 60)),
    ],
    "a cat that was cut": [LATE, sh("cat a.py", rows(1, 300) + "\n... [2700 lines omitted] ...\n")],
    "a cat that was cut without a word": [LATE, sh("cat a.py", rows(1, 300))],
    "a range in an unknown word": [
        ("read", {"path": "a.py", "between": [500, 540]}, rows(500, 540)),
        OTHERWISE,
    ],
    "a page": [
        ("read", {"path": "a.py", "page": 6}, rows(500, 540)),
        ("read", {"path": "a.py", "page": 1}, rows(1, 300)),
    ],
    "an end that hides the start": [
        ("read", {"path": "a.py", "symbol": "step_500"}, rows(500, 540)),
        ("read", {"path": "a.py", "limit": 300}, rows(1, 300)),
    ],
    "a cursor": [
        ("read", {"path": "a.py", "cursor": "c3"}, rows(500, 540)),
        OTHERWISE,
    ],
    "numbers that are not those asked for": [
        ("read", {"path": "a.py", "limit": 41}, numbered(500, 540)),
        ("read", {"path": "a.py"}, numbered(1, 2100).replace("state", "it")),
    ],
    "another version": [
        ("read", {"path": "a.py", "sha": "1f2e"}, rows(1, 40)),
        OTHERWISE,
    ],
    "a part by sed": [READ, sh("sed -n '1,20p' a.py", rows(1, 20))],
    "the end by tail": [READ, sh("tail -n +20 a.py", rows(20, 40))],
}

COMMANDS: dict[str, list[Call]] = {
    "missing, behind ||": [READ, sh("cat a.py 2>/dev/null || echo missing", "missing")],
    "true, behind ||": [READ, sh("cat a.py || true", "cat: a.py: No such file or directory")],
    "a pipe": [READ, sh("cat a.py | head -200", "cat: a.py: No such file or directory")],
    "a semicolon": [READ, sh("cat a.py; cat b.py", "cat: a.py: No such file or directory\n" + ANOTHER)],
    "behind a test": [READ, sh("grep -q nope a.py && rm a.py; echo done", "done")],
    "behind another test": [READ, sh("test -f x && rm a.py; ls", "a.py b.py")],
    "a refusal that is hidden": [READ, sh("rm a.py || true", "rm: cannot remove 'a.py': Permission denied")],
    "a refusal that is not flagged": [READ, sh("rm a.py", "rm: cannot remove 'a.py': Permission denied")],
    "a wait in vain": [READ, sh("rm a.py", "Command timed out after 120 seconds")],
    "a question": [READ, sh("rm a.py", "rm: remove write-protected regular file 'a.py'? ")],
    "a refusal of the host's": [READ, sh("rm a.py", "The user denied permission to run this command")],
    "an argument that is not known": [READ, sh("rm a.py", "", sandbox="box")],
    "a line behind": [READ, sh("rm a.py\nls", "a.py")],
    "a pipe behind": [READ, sh("rm a.py | cat", "")],
    "in the background": [READ, sh("rm a.py &", "")],
    "in the background by an argument": [
        READ,
        sh("rm a.py", "Running in the background", run_in_background=True),
    ],
    "not run": [READ, sh("! rm a.py", "")],
    "an early exit": [READ, sh("[ -f b.py ] || exit 0; rm a.py", "")],
    "an early return": [READ, sh("return 0\nrm a.py", "")],
    "set -e": [READ, sh("set -e; rm a.py; ls", "")],
    "another shell's": [READ, sh("exec true; rm a.py", "")],
    "a function": [READ, sh("rm() { echo no; }; rm a.py", "no")],
    "an alias": [READ, sh("alias rm=echo; rm a.py", "a.py")],
    "what is not known": [READ, sh("$RUN; rm a.py", "")],
    "no-clobber": [READ, sh("cp -n b.py a.py", "")],
    "no-clobber, moved": [READ, sh("mv -n b.py a.py", "")],
    "only if newer": [READ, sh("cp -u b.py a.py", "")],
    "asked about": [READ, sh("rm -i a.py < /dev/null", "rm: remove regular file 'a.py'?")],
    "a trial": [READ, sh("git rm --dry-run a.py", "rm 'a.py'")],
    "the index alone": [READ, sh("git rm --cached a.py", "rm 'a.py'")],
    "nothing to restore": [READ, sh("git checkout -- a.py", "")],
    "nothing to replace": [READ, sh("sed -i s/nowhere/x/ a.py", "")],
    "printed by sed": [READ, sh("sed -n s/a/b/ a.py", "")],
    "errors go there": [READ, sh("make 2> a.py", "made")],
    "to errors": [READ, sh("echo a.py >&2", "a.py")],
    "nowhere": [READ, sh("cat a.py > /dev/null", "")],
    "nothing appended": [READ, sh("true >> a.py", "")],
    "named by echo": [READ, sh("echo rm a.py", "rm a.py")],
    "named by command": [READ, sh("command -v rm a.py", "/bin/rm")],
    "named by type": [READ, sh("type rm a.py", "rm is /bin/rm")],
    "named by which": [READ, sh("which rm a.py", "/bin/rm")],
    "named by man": [READ, sh("man rm a.py", "RM(1)")],
    "named by xargs": [READ, sh("ls | xargs echo rm a.py", "rm a.py")],
    "listed by sudo": [READ, sh("sudo -l rm a.py", "/bin/rm a.py")],
    "on another machine": [READ, sh("ssh host rm a.py", "")],
    "in a container": [READ, sh("docker exec box rm /w/a.py", "")],
    "in a string": [READ, sh("bash -c 'rm a.py'", "")],
    "another program of that name": [READ, sh("./rm a.py", "")],
    "only as text": [READ, sh("cat <<'EOF'\nrm a.py\nEOF", "rm a.py")],
    "a heredoc that goes on": [
        READ,
        sh("cat <<'EOF' > a.py; echo done\nx\nEOF", "bash: a.py: Permission denied\ndone"),
    ],
    "a heredoc with ||": [READ, sh("cat <<'EOF' > a.py || true\nx\nEOF")],
    "a heredoc with || behind the file": [READ, sh("cat > a.py <<'EOF' || true\nx\nEOF")],
    "a heredoc in a pipe": [READ, sh("cat <<'EOF' > a.py | true\nx\nEOF")],
    "a heredoc in the background": [READ, sh("cat <<'EOF' > a.py &\nx\nEOF")],
    "a heredoc that may not run": [READ, sh("test -f b.py || cat <<'EOF' > a.py\nx\nEOF")],
    "a list in the background": [READ, sh("sleep 9 && rm a.py &")],
    "in the background by itself": [READ, sh("rm a.py", "Command is running in background with ID 3")],
    "still at it": [READ, sh("rm a.py", "[process still running]")],
}

FOLDERS: dict[str, list[Call]] = {
    "there is none": [
        ("read", {"path": "sub/a.py"}, WHOLE),
        sh("cd sub; cat a.py", "bash: cd: sub: No such file\n" + ANOTHER),
    ],
    "there is none, removed": [("read", {"path": "sub/a.py"}, WHOLE), sh("cd sub; rm a.py", "")],
    "there is none, on lines": [("read", {"path": "sub/a.py"}, WHOLE), sh("cd sub\nrm a.py", "")],
    "perhaps": [("read", {"path": "sub/a.py"}, WHOLE), sh("cd sub || true; rm a.py", "")],
    "not known": [READ, sh("cd $DIR && rm a.py", "")],
    "at home": [READ, sh("cd && rm a.py", "")],
    "back": [READ, sh("cd - && rm a.py", "")],
    "pushed": [READ, sh("pushd sub && rm a.py", "")],
    "perhaps, in silence": [READ, sh("[ -d sub ] || cd sub 2>/dev/null; rm a.py")],
    "perhaps pushed": [READ, sh("make || pushd sub > /dev/null; rm a.py")],
    "in braces": [READ, sh("{ cd sub; } 2>/dev/null; rm a.py")],
    "perhaps, in braces": [READ, sh("true || { cd sub; } 2>/dev/null; rm a.py")],
    "in a loop, in silence": [READ, sh("for d in sub; do cd $d; done 2>/dev/null; rm a.py")],
    "in a condition": [READ, sh("if true; then cd sub; fi; rm a.py", "")],
}

ARGUMENTS = (
    "workdir",
    "cwd",
    "directory",
    "dir_path",
    "dir",
    "path",
    "working_directory",
    "workingDir",
    "folder",
)


@pytest.mark.parametrize("policy", ["priced", "documented"])
@pytest.mark.parametrize("calls", CUT.values(), ids=CUT)
@pytest.mark.parametrize("format", COMMON)
def test_an_output_covers_what_it_holds(format: str, calls: list[Call], policy: str):
    assert claims(format, policy, calls, "superseded-file-ops") == set()


@pytest.mark.parametrize("format", ["pi", "anthropic", "openai-chat"])
@pytest.mark.parametrize("calls", [*COMMANDS.values(), *FOLDERS.values()], ids=[*COMMANDS, *FOLDERS])
def test_a_command_is_no_proof_where_a_failure_may_hide(format: str, calls: list[Call]):
    assert claims(format, "priced", calls, "superseded-file-ops") == set()


@pytest.mark.parametrize("argument", ARGUMENTS)
def test_a_command_runs_in_the_folder_that_an_argument_names(argument: str):
    elsewhere = sh("rm a.py", "", **{argument: "sub"})
    assert claims("pi", "priced", [READ, elsewhere], "superseded-file-ops") == set()
    there = ("read", {"path": "sub/a.py"}, WHOLE)
    assert claims("pi", "priced", [there, elsewhere], "superseded-file-ops") == {markers.CHANGED_AFTER}


def test_two_folders_are_none():
    calls = [READ, sh("rm a.py", "", cwd="sub", workdir="/w")]
    assert claims("pi", "priced", calls, "superseded-file-ops") == set()


@pytest.mark.parametrize("format", ["anthropic", "openai-chat", "openai-responses", "gemini"])
def test_a_shell_may_keep_its_folder(format: str):
    calls = [CAT, sh("cd sub"), sh("cat a.py | cat", ANOTHER), sh("cat a.py > b.py")]
    assert claims(format, "priced", calls, "superseded-file-ops") == set()


FAILED = [
    "Error: old text was not found in a.py; nothing was changed",
    "Error executing tool: EACCES: permission denied, open 'a.py'",
    "ENOENT: no such file or directory",
    "Failed to apply edit",
    "failure",
    "ValueError: no match",
    "Could not find the text to replace.",
    "String to replace not found in file.",
    "old_string matches 3 places; it must be unique",
    "No changes were made to a.py",
    "0 replacements made",
    "The user rejected this edit",
    "Permission denied",
    "Tool execution aborted",
    "Traceback (most recent call last):\n  File ...\nKeyError: 'x'",
    "❌ a.py",
    "<tool_use_error>File has not been read yet</tool_use_error>",
    '{"error": "not found"}',
    '{"success": false, "path": "a.py"}',
    '{"ok": false}',
    '{"isError": true, "content": "x"}',
    '{"status": "failed"}',
    '[{"status": "error"}]',
    '{"result": {"exit_code": 2}}',
    '{"type": "text", "text": "Error: gone"}',
    "Exit code: 1\nWall time: 0.1 seconds\nOutput:\nsome text",
    "some text\nProcess exited with code 3",
    "Would have updated a.py (dry run)",
    "Queued for approval",
    "Edit proposed; awaiting approval",
    "File has been modified since read. Read it again before you write it.",
    "Found 3 matches of the string to replace, but replace_all is false",
    "old_string and new_string are exactly the same.",
    "[Errno 30] Read-only file system",
    '{"ok": 0, "message": "saved"}',
    '{"success": "false", "message": "saved"}',
    "Killed",
    "Segmentation fault (core dumped)",
    "command terminated with exit status 137",
    "ERR_FILE_NOT_FOUND",
    "err: 2",
    "Path outside workspace",
    "Is a directory",
    "[Old tool result content cleared]",
    "Result cached; see above",
    "Repeated call suppressed",
    "",
    " \n",
    "a.py",
]

UNCONFIRMED = [
    '{"success": true, "changed": false}',
    '{"success": true, "message": "No changes made"}',
    '{"ok": true, "dry_run": true}',
    '{"success": true, "replacements": 0}',
    '{"success": true, "results": [{"success": false}]}',
    '[{"success": true}, {"success": false}]',
    '{"exit_code": 0, "stderr": "cannot write"}',
    "Diff saved for review",
    "Edit saved as draft",
    "Changes staged",
    "Done: reverted",
    "Edit applied, then rolled back",
    "Zero replacements; done",
    "Replaced 0 occurrences",
    "Applied 1 of 2 edits",
    "Successfully validated",
    "Backup created",
    "Done. File left as is.",
    "Completed: the file is locked",
    "Created a patch at /tmp/a.patch",
    "Created file a.py.new",
    "Saved to /tmp/aa.py",
    "Wrote file\n✗ it went wrong",
    "Updated a.py\n" + "one more line of a log\n" * 60 + "disk full, so it was restored",
    "Updated a.py\n@@ -1 +1 @@\n-x\n+y\nError: disk full",
]
"""What does not say that a.py was changed, though it says that something was done."""


@pytest.mark.parametrize("text", FAILED)
@pytest.mark.parametrize("policy", ["priced", "documented"])
@pytest.mark.parametrize("format", ["openai-chat", "openai-responses", "gemini", "anthropic"])
def test_a_result_without_a_flag_may_tell_of_a_failure(format: str, policy: str, text: str):
    read: Call = ("read_file", {"path": "a.py"}, WHOLE)
    edit: Call = ("edit_file", {"path": "a.py", "old": "x", "new": "y"}, text)
    assert claims(format, policy, [read, edit], "superseded-file-ops") == set()
    if text != "a.py":
        again: Call = ("read_file", {"path": "a.py"}, text)
        assert claims(format, policy, [read, again], "superseded-file-ops", "dedupe") == set()


@pytest.mark.parametrize("text", UNCONFIRMED)
@pytest.mark.parametrize("format", ["openai-chat", "openai-responses", "gemini", "anthropic"])
def test_a_change_is_confirmed_for_its_file_and_in_plain_words(format: str, text: str):
    calls = [READ, ("edit_file", {"path": "a.py", "old": "x", "new": "y"}, text)]
    assert claims(format, "documented", calls, "superseded-file-ops") == set()


@pytest.mark.parametrize(
    "more",
    [
        {"base": "sub"},
        {"basePath": "sub"},
        {"workingDirectory": "sub"},
        {"branchName": "next"},
        {"owner": "someone"},
        {"sandbox": "box"},
        {"DryRun": True},
        {"previewOnly": True},
        {"what_if": 1},
        {"apply": False},
        {"no_overwrite": True},
        {"validate-only": True},
    ],
)
def test_a_change_may_be_one_elsewhere_or_none(more: dict[str, Any]):
    calls = [READ, ("edit_file", {"path": "a.py", "old": "x", "new": "y", **more}, "ok")]
    assert claims("openai-chat", "documented", calls, "superseded-file-ops") == set()


@pytest.mark.parametrize(
    "text",
    [
        "ok",
        "Done.",
        "File a.py has been updated.",
        "Successfully replaced text in /w/a.py.",
        "Wrote 120 bytes to a.py",
        "Errors: 0. Edited a.py",
        "Edited a.py without errors.",
        "The file /w/a.py has been updated. Here's a snippet:\n     1\tnot x",
        "File created successfully at: /w/a.py",
        "Edit applied successfully.",
        "Successfully modified file: /w/a.py (1 replacements).",
        "Successfully replaced 1 block(s) in a.py.",
        "File a.py updated with changes.",
        "✓ a.py",
        "Applied 1 edit to a.py\n@@ -1 +1 @@\n-def error()\n+def x()",
        '{"success": true, "error": null}',
        '{"status": "completed"}',
        '{"metadata": {"exit_code": 0}}',
        '{"success": true, "isError": false, "warnings": [], "data": {"bytes": 12}}',
        "Edited 2 blocks in '/w/a.py'",
        "The file a.py has been edited. Here's the result of running `cat -n` on a.py:\n     1\tx\nReview.",
    ],
)
@pytest.mark.parametrize("format", COMMON)
def test_a_change_that_its_result_confirms_counts(format: str, text: str):
    name = "edit" if format == "pi" else "edit_file"
    calls = [READ, (name, {"path": "a.py", "old": "x", "new": "y"}, text)]
    assert claims(format, "documented", calls, "superseded-file-ops") == {markers.CHANGED_AFTER}


@pytest.mark.parametrize("format", COMMON)
@pytest.mark.parametrize(
    "start", ["Errors: 0, warnings: 3", "ErrorKind = Enum('ErrorKind', 'a b')", "error_count = 0"]
)
def test_what_only_begins_like_a_failure_is_none(format: str, start: str):
    limit = "end_line" if format == "gemini" else "limit"
    part: Call = ("read", {"path": "a.py", limit: 21}, f"{start}\n{rows(1, 20)}")
    whole: Call = ("read", {"path": "a.py"}, f"{start}\n{rows(1, 30)}")
    assert claims(format, "documented", [part, whole], "superseded-file-ops") == {markers.READ_AGAIN}


PROVEN: dict[str, tuple[list[Call], str]] = {
    "removed": ([READ, sh("rm -f a.py")], markers.CHANGED_AFTER),
    "removed last": ([READ, sh("ls; rm a.py", "a.py")], markers.CHANGED_AFTER),
    "behind what has succeeded": ([READ, sh("cd /w && make && rm a.py", "made")], markers.CHANGED_AFTER),
    "moved": ([READ, sh("mv a.py b.py")], markers.CHANGED_AFTER),
    "copied over": ([READ, sh("cp b.py a.py && echo done", "done")], markers.CHANGED_AFTER),
    "written": ([READ, sh("cat <<'EOF' > a.py\nx\nEOF")], markers.CHANGED_AFTER),
    "written by tee": ([CAT, sh("make | tee a.py", "made")], markers.CHANGED_AFTER),
    "all of two files": (
        [sh("cat a.py b.py", WHOLE + ANOTHER), sh("rm a.py && rm b.py")],
        markers.CHANGED_AFTER,
    ),
    "read again": ([("read", {"path": "a.py", "limit": 30}, rows(1, 30)), READ], markers.READ_AGAIN),
    "read again by cat": ([READ, CAT], markers.READ_AGAIN),
    "a part by sed, then all by cat": ([sh("sed -n '5,35p' a.py", rows(5, 35)), CAT], markers.READ_AGAIN),
    "the end by tail, then all": ([sh("tail -5 a.py | cat", rows(36, 40)), CAT], ""),
    "numbered, then not": ([sh("cat -n a.py", numbered(1, 40)), CAT], markers.READ_AGAIN),
    "numbered, twice": (
        [sh("cat -n a.py", numbered(1, 40)), sh("nl -ba a.py", numbered(1, 50))],
        markers.READ_AGAIN,
    ),
}


@pytest.mark.parametrize(("calls", "reason"), PROVEN.values(), ids=PROVEN)
def test_what_is_proven_is_claimed(calls: list[Call], reason: str):
    assert claims("pi", "priced", calls, "superseded-file-ops") == ({reason} if reason else set())


def test_some_count_lines_from_0():
    part: Call = ("read_file", {"path": "a.py", "offset": 5, "limit": 30}, rows(6, 35))
    begin: Call = ("read_file", {"path": "a.py", "limit": 34}, rows(1, 34))
    assert claims("openai-chat", "documented", [part, begin], "superseded-file-ops") == set()
    more: Call = ("read_file", {"path": "a.py", "limit": 90}, "moved\n" * 90)
    assert claims("openai-chat", "documented", [part, more], "superseded-file-ops") == {markers.READ_AGAIN}
    whole: Call = ("read_file", {"path": "a.py"}, WHOLE)
    assert claims("openai-chat", "documented", [part, whole], "superseded-file-ops") == {markers.READ_AGAIN}
    told: Call = ("read_file", {"path": "a.py", "offset": 5, "limit": 30}, numbered(6, 35))
    later: Call = ("read_file", {"path": "a.py"}, numbered(1, 40).replace("step", "move"))
    assert claims("openai-chat", "documented", [told, later], "superseded-file-ops") == {markers.READ_AGAIN}


def test_codex_puts_a_header_before_an_output():
    header = "Chunk ID: 1a\nWall time: 0.1 seconds\nProcess exited with code 0\nOutput:\n"
    transcript = build.transcript(
        build.used("a", "exec_command", {"cmd": "sed -n '5,35p' a.py"}, header + rows(5, 35)),
        build.used("b", "exec_command", {"cmd": "cat a.py"}, header.replace("1a", "2b") + WHOLE),
        build.used("c", "exec_command", {"cmd": "rm a.py"}, header.replace("1a", "3c")),
        vocabulary=tools.CODEX,
        cwd="/w",
    )
    found = {one.exchange.call.id: one.reason for one in SupersededOutputs().advance(transcript)}
    assert found == {"a": markers.READ_AGAIN, "b": markers.CHANGED_AFTER}


def test_lines_in_a_frame():
    framed = "<path>/w/a.py</path>\n<type>file</type>\n<content>\n" + "".join(
        f"{number}: {line}\n" for number, line in enumerate(WHOLE.splitlines(), 1)
    )
    transcript = build.transcript(
        build.used("a", "bash", {"command": "sed -n '5,35p' a.py", "workdir": "/w"}, rows(5, 35)),
        build.used(
            "b", "read", {"filePath": "a.py"}, framed + "\n(End of file - total 40 lines)\n</content>"
        ),
        vocabulary=tools.OPENCODE,
        cwd="/w",
    )
    assert [one.reason for one in SupersededOutputs().advance(transcript)] == [markers.READ_AGAIN]


def test_an_exit_code_in_a_known_form_is_a_proof():
    transcript = build.transcript(
        build.used("a", "shell", {"command": "cat /w/a.py"}, WHOLE),
        build.used("b", "shell", {"command": "rm /w/a.py"}, "Exit code: 0\nWall time: 0 seconds\nOutput:\n"),
        vocabulary=tools.CODEX,
    )
    assert [one.reason for one in SupersededOutputs().advance(transcript)] == [markers.CHANGED_AFTER]


# ---------------------------------------------------------------- any history

NAMES = ("a", "b/a")
COMMAND = st.sampled_from(
    [
        "cat {}",
        "cat {} | head -7",
        "sed -n '3,9p' {}",
        "rm {}",
        "rm {} || true",
        "cp x {}",
        "cd b; cat {}",
        "echo x > {}",
    ]
)
STEP = st.tuples(
    st.sampled_from(["read", "write", "edit", "bash"]),
    st.sampled_from(NAMES),
    st.sampled_from([None, 0, 1, 3, 8, -2, "4", 2.5, 10**400]),
    st.sampled_from([None, 0, 2, 9, 40, -1, True]),
    st.sampled_from(["all", "cut", "marked", "stub", "empty", "failed", "numbered"]),
    COMMAND,
    st.booleans(),
)


_NOTICE = "[7 more lines in file. Use offset=4 to continue.]"


_MARK = "[many lines truncated]"
_CHANGES = ("rm {}", "cp x {}", "echo x > {}")


def _output(kind: str, first: int, last: int, *, notices: bool) -> str:
    shown = [f"line {number} of it" for number in range(first, last + 1)]
    match kind:
        case "cut":
            shown = [*shown[: len(shown) // 2], *([_NOTICE] if notices else [])]
        case "marked":
            shown = [*shown[:3], _MARK, *shown[-3:]]
        case "stub":
            shown = ["File unchanged since last read"]
        case "empty":
            shown = []
        case "failed":
            shown = ["Error: it could not be done"]
        case "numbered":
            shown = [f"{number:6}\t{line}" for number, line in enumerate(shown, first)]
    return "\n".join(shown)


@given(st.lists(STEP, min_size=2, max_size=14), st.sampled_from([tools.PI, tools.CLAUDE_CODE, tools.GENERIC]))
def test_a_claim_is_true_of_any_history(steps: list[Any], vocabulary: tools.Vocabulary):
    natives: list[Any] = []
    texts: list[list[str]] = []
    changed: list[str | None] = []
    for number, (name, path, offset, limit, kind, command, error) in enumerate(steps):
        first = int(offset) if isinstance(offset, int | float) and 0 < offset < 99 else 1
        last = first + limit - 1 if limit is not True and limit is not None and limit > 0 else 20
        output = _output(kind, first, last, notices=vocabulary is tools.PI)
        if name == "bash":
            arguments = {"command": command.format(path)}
        else:
            arguments = {"path": path} | ({"offset": offset, "limit": limit} if name == "read" else {})
        natives += build.used(str(number), name, arguments, output, error=error)
        lines = [line.strip().rpartition("\t")[2] for line in output.split("\n") if line.strip()]
        texts.append([line for line in lines if line.startswith("line ")])
        changes = name in ("write", "edit") or (name == "bash" and command in _CHANGES)
        went_well = not error and kind != "failed"
        changed.append(path if changes and went_well else None)
    transcript = build.transcript(natives, vocabulary=vocabulary, cwd="/w")
    for strategy in (SupersededFileOps(), SupersededOutputs()):
        for stale in strategy.advance(transcript):
            at = int(stale.exchange.call.id)
            if stale.reason == markers.READ_AGAIN:
                later = [texts[n] for n in range(at + 1, len(steps)) if not steps[n][6]]
                assert any(_stand_in(texts[at], one) for one in later)
            else:
                assert steps[at][1] in changed[at + 1 :]


def _stand_in(lines: list[str], others: list[str]) -> bool:
    """Whether all lines stand among the others, in order."""
    left = iter(others)
    return all(line in left for line in lines)
