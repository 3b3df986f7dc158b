"""Write examples/session.jsonl, an invented pi session.

An agent works for nine turns on "pantry", a small web service that does not exist. The session
holds what pruning is about: files read again after an edit, the same command run twice, failed
commands with long inputs, large test logs, and a few things that must stay (a todo list, a `.env`).

    python examples/make_session.py

Every run writes the same bytes.
"""

import hashlib
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

OUTPUT = Path(__file__).with_name("session.jsonl")
CWD = "/home/mara/pantry"
START = datetime(2026, 3, 2, 9, 14, 0, tzinfo=UTC)
PRICES = {"input": 3.0, "output": 15.0, "cacheRead": 0.3, "cacheWrite": 3.75}  # per million tokens

Json = dict[str, Any]


class Session:
    """Entries of one pi session file, each the child of the one before."""

    def __init__(self) -> None:
        self.now = START
        self.entries: list[Json] = [
            {
                "type": "session",
                "version": 3,
                "id": "019cad3e-6b40-7c11-9f3e-2d5b8a7c4e10",
                "timestamp": _iso(START),
                "cwd": CWD,
            }
        ]
        self._calls = 0
        self._sent = 1800  # tokens of system prompt and tools
        self._cached = 0

    def entry(self, kind: str, seconds: float = 1.0, **fields: Any) -> None:
        """Append an entry that is `seconds` later than the one before."""
        self.now += timedelta(seconds=seconds)
        number = len(self.entries)
        parent = self.entries[-1]["id"] if number > 1 else None
        name = hashlib.sha256(f"pantry {number}".encode()).hexdigest()[:8]
        self.entries.append(
            {"type": kind, "id": name, "parentId": parent, "timestamp": _iso(self.now)} | fields
        )

    def message(self, seconds: float, **message: Any) -> None:
        """Append a message and count its size."""
        stamp = _milliseconds(self.now + timedelta(seconds=seconds))
        self.entry("message", seconds, message=message | {"timestamp": stamp})
        self._sent += len(json.dumps(message)) // 4

    def user(self, text: str) -> None:
        """Let the user speak, which starts a turn."""
        self.message(95, role="user", content=[{"type": "text", "text": text}])

    def shell(self, command: str, output: str) -> None:
        """Let the user run a command in pi's own shell."""
        self.message(
            20,
            role="bashExecution",
            command=command,
            output=output,
            exitCode=0,
            cancelled=False,
            truncated=False,
        )

    def say(self, text: str) -> None:
        """Let the model end its turn."""
        self._assistant([{"type": "text", "text": text}], "stop")

    def call(self, text: str, *calls: tuple[str, Json, str, bool]) -> None:
        """Let the model call tools in parallel, each `(tool, arguments, output, failed)`."""
        content: list[Json] = [{"type": "text", "text": text}] if text else []
        results: list[Json] = []
        for tool, arguments, output, failed in calls:
            self._calls += 1
            number = hashlib.sha256(f"call {self._calls}".encode()).hexdigest()[:20]
            call = f"toolu_{number}"
            content.append({"type": "toolCall", "id": call, "name": tool, "arguments": arguments})
            results.append(
                {
                    "role": "toolResult",
                    "toolCallId": call,
                    "toolName": tool,
                    "content": [{"type": "text", "text": output}],
                    "isError": failed,
                }
            )
        self._assistant(content, "toolUse")
        for result in results:
            self.message(0.4, **result)

    def _assistant(self, content: list[Json], stop: str) -> None:
        written = len(json.dumps(content)) // 4
        usage: Json = {
            "input": 4,
            "output": written,
            "cacheRead": self._cached,
            "cacheWrite": self._sent - self._cached,
        }
        cost = {kind: round(usage[kind] * price / 1e6, 6) for kind, price in PRICES.items()}
        usage["totalTokens"] = sum(usage.values())
        usage["cost"] = cost | {"total": round(sum(cost.values()), 6)}
        self._cached = self._sent
        self.message(
            4,
            role="assistant",
            content=content,
            api="anthropic-messages",
            provider="mock",
            model="mock-sonnet-1",
            usage=usage,
            stopReason=stop,
        )

    def text(self) -> str:
        """Return the session file's text."""
        return "".join(
            json.dumps(entry, ensure_ascii=False, separators=(",", ":")) + "\n" for entry in self.entries
        )


def _iso(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _milliseconds(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)


# What the invented project holds.

RESOURCES = ["item", "shelf", "recipe", "supplier", "order", "label", "recall_notice", "store_room"]


def _routes(*, paged: bool, checked: bool) -> str:
    """Return pantry/routes.py, before and after the session's two edits."""
    page = "limit: int = 50, offset: int = 0" if paged else ""
    cut = ".limit(limit).offset(offset)" if paged else ""
    blocks = ['"""HTTP routes of the pantry service."""\n\nfrom pantry import db, web\n']
    for name in RESOURCES:
        check = f"    web.require(payload, schema={name}_schema)\n" if checked else ""
        title = name.replace("_", " ")
        blocks.append(
            f'''
@web.get("/{name}s")
def list_{name}s({page}):
    """List every {title}, in the order in which it came in."""
    query = db.table("{name}s").order_by("created"){cut}
    return web.json([row.public() for row in query])


@web.get("/{name}s/<key>")
def show_{name}(key):
    """Show one {title}, or answer 404."""
    row = db.table("{name}s").get(key)
    if row is None:
        return web.error(404, f"no {title} has the key {{key}}")
    return web.json(row.public())


@web.post("/{name}s")
def add_{name}(payload):
    """Add a {title}, and answer with its address."""
{check}    key = db.table("{name}s").insert(payload)
    web.log("{name} added", key=key)
    return web.created(f"/{name}s/{{key}}")
'''
        )
    return "\n".join(blocks)


def _models() -> str:
    blocks = ['"""Rows of the pantry database."""\n\nfrom dataclasses import dataclass\n']
    for name in RESOURCES[:5]:
        title = "".join(word.capitalize() for word in name.split("_"))
        blocks.append(
            f"""
@dataclass
class {title}:
    key: str
    name: str
    created: float
    note: str = ""

    def public(self):
        return {{"key": self.key, "name": self.name, "created": self.created}}
"""
        )
    return "\n".join(blocks)


def _test_log(failing: int) -> str:
    """Return the output of a verbose test run with `failing` failures."""
    cases = ["lists_all", "lists_none", "shows_one", "answers_404", "adds", "logs_the_key"]
    lines = ["============================= test session starts ============================="]
    total, failed = 0, 0
    for name in RESOURCES:
        for case in cases:
            total += 1
            bad = failed < failing and case == "lists_all"
            failed += bad
            word = "FAILED" if bad else "PASSED"
            lines.append(f"tests/test_{name}s.py::test_{name}_{case} {word} [{total * 100 // 48:3}%]")
    for name in RESOURCES[:failing]:
        lines += [
            f"____________________________ test_{name}_lists_all ____________________________",
            f"    rows = client.get('/{name}s?limit=2').json()",
            ">   assert len(rows) == 2",
            f"E   AssertionError: assert 7 == 2, the whole table of {name}s came back",
            f"tests/test_{name}s.py:31: AssertionError",
        ]
    lines.append(
        f"==================== {failed} failed, {total - failed} passed in 3.21s ===================="
    )
    return "\n".join(lines)


def _seed_script(broken: bool) -> str:  # noqa: FBT001 - a fixture, not an interface
    """Return a long inline script, which the model first gets wrong."""
    rows = "\n".join(
        f'    ("{name}s", {{"name": "{name} {number}", "note": "sample row for paging"}}),'
        for name in RESOURCES
        for number in range(1, 4)
    )
    imported = "pantry.database" if broken else "pantry.db"
    return (
        f"python - <<'PY'\nfrom {imported} import table\n\nROWS = [\n{rows}\n]\n"
        "for name, row in ROWS:\n    table(name).insert(row)\nprint(len(ROWS), 'rows added')\nPY"
    )


STATUS = (
    "On branch paging\nYour branch is up to date with 'origin/paging'.\n\n"
    "nothing to commit, working tree clean\n"
)
LISTING = "\n".join(
    ["Makefile", "README.md", "migrations/", "pantry/", "pyproject.toml", "scripts/", "tests/"]
)
ENVIRONMENT = "PANTRY_DATABASE=sqlite:///pantry.sqlite\nPANTRY_SECRET=not-a-real-secret\nPANTRY_PORT=8080\n"
NO_MODULE = (
    "Traceback (most recent call last):\n"
    '  File "<stdin>", line 1, in <module>\n'
    "ModuleNotFoundError: No module named 'pantry.database'\n\n\nCommand exited with code 1"
)


def _read(path: str, text: str, **window: int) -> tuple[str, Json, str, bool]:
    return "read", {"path": path} | window, text, False


def _bash(command: str, output: str) -> tuple[str, Json, str, bool]:
    return "bash", {"command": command}, output, False


def _failed(command: str, output: str) -> tuple[str, Json, str, bool]:
    return "bash", {"command": command, "timeout": 60}, output, True


def _edit(path: str, old: str, new: str) -> tuple[str, Json, str, bool]:
    output = f"Successfully replaced 1 block(s) in {path}."
    return "edit", {"path": path, "edits": [{"oldText": old, "newText": new}]}, output, False


def _todo(*lines: str) -> tuple[str, Json, str, bool]:
    return "todo", {"action": "write", "items": list(lines)}, f"{len(lines)} items kept", False


def pantry() -> Session:
    """Return the whole session."""
    session = Session()
    session.entry("model_change", provider="mock", modelId="mock-sonnet-1")
    session.entry("thinking_level_change", 0, thinkingLevel="off")

    session.user("GET /items is slow. Can you look at the routes and tell me why?")
    session.call(
        "I'll look at the tree and the routes first.",
        ("ls", {"path": "."}, LISTING, False),
        _bash("git status", STATUS),
        _read("pantry/routes.py", _routes(paged=False, checked=False)),
    )
    session.call("", _read("pantry/models.py", _models()), _read(".env", ENVIRONMENT))
    session.say("Every list route sends its whole table. Paging would help: limit and offset.")

    session.user("Yes, add paging to all of them. Tests first.")
    session.call(
        "A plan, and where the tests stand.",
        _todo("tests for limit", "paging in routes", "page size in the settings"),
        _bash("python -m pytest -v", _test_log(8)),
    )
    session.call("Some rows to page through.", _failed(_seed_script(broken=True), NO_MODULE))
    session.call("The module is called db.", _bash(_seed_script(broken=False), "24 rows added\n"))
    session.call(
        "",
        _edit(
            "pantry/routes.py",
            'def list_items():\n    """List every item',
            'def list_items(limit: int = 50, offset: int = 0):\n    """List every item',
        ),
    )
    session.call(
        "Let me see the whole file once more.",
        _read("pantry/routes.py", _routes(paged=True, checked=False)),
        _bash("python -m pytest -v", _test_log(3)),
    )
    session.say("Three list routes still send everything: supplier, order and label come next.")

    session.user("Go on. While you are there, check what is posted against the schemas.")
    session.call(
        "",
        _edit(
            "pantry/routes.py",
            '    key = db.table("items").insert(payload)',
            '    web.require(payload, schema=item_schema)\n    key = db.table("items").insert(payload)',
        ),
        _failed(
            "python -m pytest -v tests/test_items.py tests/test_shelfs.py -k 'adds or lists' "
            + " ".join(f"--deselect tests/test_{name}s.py::test_{name}_logs_the_key" for name in RESOURCES),
            "ERROR: file or directory not found: tests/test_shelfs.py\n\n\nCommand exited with code 4",
        ),
    )
    session.call(
        "",
        _read("pantry/routes.py", _routes(paged=True, checked=True)),
        _bash("python -m pytest -v", _test_log(0)),
    )
    session.say("Paging and checks are in every route, and all 48 tests pass.")

    session.user("Good. Is the tree clean?")
    session.call("", _bash("git status", STATUS), ("ls", {"path": "."}, LISTING, False))
    session.say("Clean, on the branch paging.")

    session.shell("git log --oneline -2", "4be01c7 Check what is posted\n9a77d3e Page every list\n")
    session.user("Page size should come from the settings.")
    session.call("", _read("pantry/config.py", "PAGE_SIZE = 50\nPORT = 8080\n"), _read(".env", ENVIRONMENT))
    session.call("", _edit("pantry/config.py", "PAGE_SIZE = 50", 'PAGE_SIZE = int(env("PANTRY_PAGE", 50))'))
    session.say("PANTRY_PAGE sets it now; 50 where it is not set.")

    session.user("Does the README mention paging?")
    session.call("", ("grep", {"pattern": "limit|offset", "path": "README.md"}, "No matches found", False))
    session.call(
        "",
        _edit("README.md", "## Routes\n", "## Routes\n\nLists take `limit` and `offset`.\n"),
        _todo("done: tests for limit", "done: paging in routes", "done: page size in the settings"),
    )
    session.say("It does now, in one line under Routes.")

    session.user("Run everything one last time.")
    session.call("", _bash("python -m pytest -v", _test_log(0)), _bash("git status", STATUS))
    session.say("All 48 tests pass.")

    session.user("And how would a client ask for the second page?")
    session.call("", _read("pantry/config.py", 'PAGE_SIZE = int(env("PANTRY_PAGE", 50))\nPORT = 8080\n'))
    session.say("`GET /items?limit=50&offset=50`. Without a limit it gets PANTRY_PAGE rows.")

    session.user("Thanks. Write that into the README too.")
    session.call(
        "",
        _edit(
            "README.md",
            "Lists take `limit` and `offset`.",
            "Lists take `limit` and `offset`: `GET /items?limit=50&offset=50` is the second page.",
        ),
    )
    session.say("Done.")
    return session


if __name__ == "__main__":
    OUTPUT.write_text(pantry().text(), encoding="utf-8")
    print(f"wrote {OUTPUT}")
