"""Writes the pictures of the picker, assets/picker*.svg: `python docs/capture_picker.py`.

Opens a copy of the sample session in the real picker, without a terminal, presses keys, and has Textual draw
what is shown. In the copy the last LLM call was a moment ago, by a model whose cache rules are known, so
that there is a warm cache to see.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import tempfile
import time
from pathlib import Path

from prunewise.cli.desk import Desk
from prunewise.cli.picker.app import PickerApp
from prunewise.cli.picker.sitting import Sitting

ROOT = Path(__file__).resolve().parents[1]
ASSETS = ROOT / "docs" / "assets"
SESSION = ROOT / "examples" / "session.jsonl"

_AGO = 150
"""Seconds since the last LLM call: in the middle of a minute, so that the picture does not depend on it."""
_MODEL = {"provider": "anthropic", "model": "claude-sonnet-4-5"}
_FIRST_BATCH = ("end", "up", "p", "y")
_SELECTED = ("home", "down", "space", "down", "space", "down", "down", "space")
_FONT = 'ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace'


def pictures() -> dict[str, str]:
    """The pictures by their names, as SVG that needs no network."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        path = Path("session.jsonl")
        path.write_text(_recent(SESSION.read_text(encoding="utf-8")), encoding="utf-8")
        look, ask = asyncio.run(_taken(path))
    return {"picker.svg": look, "picker-confirm.svg": ask}


def _recent(session: str) -> str:
    """The session with its last LLM call a moment ago."""
    records = [json.loads(line) for line in session.splitlines()]
    answers = [
        record["message"] for record in records if record.get("message", {}).get("role") == "assistant"
    ]
    answers[-1].update(_MODEL, timestamp=(time.time() - _AGO) * 1000)
    return "".join(json.dumps(record) + "\n" for record in records)


async def _taken(path: Path) -> tuple[str, str]:
    """The whole screen with a few rows selected, and, on a small terminal, the question with their price."""
    app = PickerApp(Sitting(Desk.of(path), force=True))
    app.theme = "textual-dark"
    async with app.run_test(size=(130, 34)) as pilot:
        await pilot.press(*_FIRST_BATCH)
        await app.workers.wait_for_complete()
        await pilot.press(*_SELECTED)
        await pilot.pause()
        look = _offline(app.export_screenshot(title="prunewise prune session.jsonl", simplify=True))
        await pilot.resize_terminal(80, 24)
        await pilot.press("p")
        await pilot.pause()
        return look, _offline(app.export_screenshot(title="prunewise prune session.jsonl", simplify=True))


def _offline(svg: str) -> str:
    """The picture without the fonts that it has from the network."""
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)
    svg = svg.replace("font-family: Fira Code, monospace", f"font-family: {_FONT}")
    svg = re.sub(r"<!--.*?-->", "", svg, flags=re.DOTALL)
    return "\n".join(line.rstrip() for line in svg.splitlines() if line.strip()) + "\n"


def main() -> None:
    """Bring the pictures up to date."""
    ASSETS.mkdir(exist_ok=True)
    for name, svg in pictures().items():
        (ASSETS / name).write_text(svg, encoding="utf-8")


if __name__ == "__main__":
    main()
