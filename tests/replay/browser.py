"""A real browser without a window, driven through its debugging pipe: what it draws, asks for and says."""

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any, Self

PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def program() -> str | None:
    """A browser on PATH that speaks the protocol."""
    return next((found for name in PROGRAMS if (found := shutil.which(name))), None)


class Browser:
    """One page at a time; `complaints` and `requests` are those since it was opened."""

    def __init__(self, path: str) -> None:
        self._profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self._number = 0
        self._session = ""
        self.complaints: list[str] = []
        self.requests: list[str] = []
        commands, self._commands = os.pipe()
        self._answers, answers = os.pipe()
        self._process = subprocess.Popen(
            [
                "bash",
                "-c",
                f'exec "$@" 3<&{commands} 4>&{answers}',
                "bash",
                path,
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--no-first-run",
                f"--user-data-dir={self._profile.name}",
                "--remote-debugging-pipe",
            ],
            pass_fds=(commands, answers),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(commands)
        os.close(answers)
        self._unread = b""

    def __enter__(self) -> Self:
        target = self._ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._ask(f"{domain}.enable")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._commands)
        os.close(self._answers)
        self._profile.cleanup()

    def open(self, page: Path, *, width: int, dark: bool = False) -> None:
        """Show a page of so many pixels, in light or dark."""
        self._ask(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=900,
            deviceScaleFactor=1,
            mobile=width < 700,
        )
        self._ask(
            "Emulation.setEmulatedMedia",
            features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}],
        )
        self.complaints, self.requests = [], []
        self._ask("Page.navigate", url=page.as_uri())
        self._until("Page.loadEventFired")

    def value(self, expression: str) -> Any:
        """What an expression comes to on the page."""
        found = self._ask("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def _ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return answer["result"]

    def _until(self, method: str) -> None:
        while self._read().get("method") != method:
            pass

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._unread:
            read = os.read(self._answers, 1 << 16)
            assert read, "the browser is gone"
            self._unread += read
        message, self._unread = self._unread.split(b"\0", 1)
        event = json.loads(message)
        self._note(event.get("method"), event.get("params") or {})
        return event

    def _note(self, method: str | None, about: dict[str, Any]) -> None:
        if method == "Log.entryAdded":
            self.complaints.append(about["entry"]["text"])
        elif method in ("Runtime.consoleAPICalled", "Runtime.exceptionThrown"):
            self.complaints.append(json.dumps(about))
        elif method == "Network.requestWillBeSent":
            self.requests.append(about["request"]["url"])
