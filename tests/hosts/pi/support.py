"""A pi that is played: its session file, and what its extension would tell the engine of it."""

import json
from pathlib import Path
from typing import Any

import msgspec

from prunewise.hosts.pi.commands import Dialogs
from prunewise.hosts.pi.protocol import (
    VERSION,
    Action,
    Answer,
    AnswerParams,
    Append,
    CommandParams,
    Halves,
    Hello,
    Say,
    Seen,
    View,
)
from prunewise.hosts.pi.session import Session

LONG = "a line of the output\n" * 100


class Talk:
    """One session, written as pi writes it and told as the extension tells it."""

    def __init__(
        self, folder: Path, *, in_memory: bool = False, parent: str | None = None, **more: Any
    ) -> None:
        self.file = None if in_memory else folder / "session.jsonl"
        self.header: dict[str, Any] = {
            "type": "session",
            "version": 3,
            "id": "the-session",
            "timestamp": "2026-01-01T00:00:00.000Z",
            "cwd": str(folder),
        }
        if parent is not None:
            self.header["parentSession"] = parent
        self.records: list[dict[str, Any]] = []
        self.leaf: str | None = None
        self.calls = 0
        self.cwd = folder
        self.token: int | None = None
        self.applied: int | None = None
        self.whole: list[str] = []
        self.held: list[str] = []
        self.told = 0
        self.edits: dict[int, list[Any]] = {}
        self.more = more
        self.session = self.greet()
        self.dialogs = Dialogs(self.session)

    def greet(self, **more: Any) -> Session:
        """A new engine process for the session as it is now."""
        hello = Hello(
            more.pop("protocol", VERSION),
            str(self.cwd),
            self.header,
            None if self.file is None else str(self.file),
            self.leaf,
            **{"trusted": True, "halves": Halves(), **self.more, **more},
        )
        self.token, self.told, self.held, self.applied = None, 0, [], None
        self.session = Session(hello)
        self.dialogs = Dialogs(self.session)
        return self.session

    # ---- what pi writes

    def add(self, type: str, /, **fields: Any) -> str:
        """Add an entry to the session."""
        name = f"{len(self.records) + 1:08x}"
        stamp = "2026-01-01T00:00:00.000Z"
        record = {"type": type, "id": name, "parentId": self.leaf, "timestamp": stamp, **fields}
        if self.file is not None:
            if not self.file.exists():
                self.file.write_text(json.dumps(self.header) + "\n")
            with self.file.open("a") as file:
                file.write(json.dumps(record) + "\n")
        self.records.append(record)
        self.leaf = name
        return name

    def say(self, text: str) -> str:
        return self.add("message", message={"role": "user", "content": text, "timestamp": 1})

    def call(
        self, tool: str, output: str = LONG, *, error: bool = False, tokens: int = 0, **arguments: Any
    ) -> str:
        """A tool call with its result: its id."""
        self.calls += 1
        name = f"call_{self.calls}"
        block = {"type": "toolCall", "id": name, "name": tool, "arguments": arguments}
        self.answer([block], tokens=tokens)
        content = [{"type": "text", "text": output}]
        result = {"role": "toolResult", "toolCallId": name, "toolName": tool, "content": content}
        self.add("message", message={**result, "isError": error, "timestamp": 1})
        return name

    def answer(
        self,
        content: Any,
        *,
        tokens: int = 0,
        usage: dict[str, int] | None = None,
        stop: str = "stop",
        at: int = 1000,
        model: str = "",
    ) -> str:
        message = {
            "role": "assistant",
            "content": content,
            "stopReason": stop,
            "timestamp": at,
            "model": model,
        }
        return self.add("message", message={**message, "usage": usage or {"totalTokens": tokens}})

    # ---- what the extension tells

    @property
    def branch(self) -> list[dict[str, Any]]:
        """The messages of pi's branch, as records."""
        by_id = {one["id"]: one for one in self.records}
        found: list[dict[str, Any]] = []
        name = self.leaf
        while name is not None:
            found.insert(0, by_id[name])
            name = by_id[name]["parentId"]
        return [one for one in found if one["type"] == "message"]

    def view(self, **more: Any) -> View:
        """What the extension would send now."""
        names = [one["id"] for one in self.branch]
        keep = 0
        while keep < min(len(names), len(self.held)) and names[keep] == self.held[keep]:
            keep += 1
        entries: list[msgspec.Raw] = []
        if self.file is None:
            start = 0 if self.token is None else self.told
            entries = [msgspec.Raw(json.dumps(one).encode()) for one in self.records[start:]]
            self.told = len(self.records)
        self.held = names
        keep = 0 if self.token is None else keep
        fields: dict[str, Any] = {"window": 1_000_000, "reserve": 1000, **more}
        fields = {"applied": self.applied, "whole": self.whole, **fields}
        return View(self.token, keep, self.leaf, [Seen(name) for name in names[keep:]], entries, **fields)

    def take(self, answer: Answer, *, append: bool = True) -> Answer:
        """Take an answer in as the extension does."""
        self.token = answer.token
        if append:
            for entry in answer.entries:
                self.add("custom", customType=entry.custom_type, data=entry.data)
        for edits in answer.edits:
            if edits.parts:
                self.edits[edits.position] = edits.parts
            else:
                del self.edits[edits.position]
        return answer

    def context(self, **more: Any) -> Answer:
        """One request."""
        before = list(self.held)
        view = self.view(**more)
        answer = self.session.context(view)
        if answer.resync is None:
            kept = view.keep
            self.edits = {position: parts for position, parts in self.edits.items() if position < kept}
            self.applied, self.whole = answer.token, []
            return self.take(answer)
        self.held = before
        return answer

    def late(self, *, asked: bool = True) -> None:
        """One request whose answer comes too late; or for which the engine is not even asked."""
        if asked:
            self.session.context(self.view())
        self.whole.append(self.branch[-1]["id"])
        self.token, self.held, self.edits = None, [], {}

    def unwritten(self) -> Answer:
        """One request whose decisions cannot be written: it is asked about once more."""
        self.session.context(self.view())
        self.token, self.held, self.edits = None, [], {}
        return self.context(unwritten="no space left")

    @property
    def texts(self) -> dict[str, str]:
        """What goes out for each call's result."""
        found: dict[str, str] = {}
        for position, record in enumerate(self.branch):
            message = record["message"]
            if message["role"] == "toolResult":
                parts = self.edits.get(position)
                found[message["toolCallId"]] = parts[0].value if parts else message["content"][0]["text"]
        return found

    def command(self, text: str, *replies: Any, ui: bool = True, **more: Any) -> list[Action]:
        """Give a command, with these answers to what it asks: all of its actions."""
        name, _, args = text.removeprefix("/").partition(" ")
        waiting = list(replies)
        actions: list[Action] = []
        answer = self.take(self.dialogs.begin(CommandParams(self.view(), name, args, ui, **more)))
        while answer.action is not None:
            actions.append(answer.action)
            value: Any = None
            if isinstance(answer.action, Append):
                value = waiting.pop(0) if waiting and isinstance(waiting[0], Exception) else None
                if value is None:
                    for entry in answer.action.entries:
                        self.add("custom", customType=entry.custom_type, data=entry.data)
                else:
                    value = str(value)
            elif not isinstance(answer.action, Say):
                value = waiting.pop(0)
                if callable(value):
                    value = value(answer.action)
            answer = self.take(self.dialogs.go_on(AnswerParams(answer.dialog or 0, value)))
        assert not waiting
        return actions

    def says(self, text: str, *replies: Any, **more: Any) -> str:
        """Give a command: all that it says."""
        return "\n".join(one.text for one in self.command(text, *replies, **more) if isinstance(one, Say))
