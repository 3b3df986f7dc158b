"""Writes the picture of a report, assets/report.svg: `python docs/capture_report.py`.

Replays the sample session with the command that stands in the picture, and draws what a terminal shows.
A test compares the committed picture with what this makes of it.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

ROOT = Path(__file__).resolve().parents[1]
PICTURE = ROOT / "docs" / "assets" / "report.svg"
COMMAND = "prunewise benchmark examples/session.jsonl"
COLUMNS = 80

_THEME = TerminalTheme(
    (30, 34, 42),
    (214, 218, 226),
    [(30, 34, 42), (240, 113, 120), (127, 201, 127), (229, 192, 103), (120, 170, 240), (198, 146, 233),
     (102, 200, 205), (214, 218, 226)],
    [(132, 140, 155), (240, 113, 120), (127, 201, 127), (229, 192, 103), (120, 170, 240), (198, 146, 233),
     (102, 200, 205), (255, 255, 255)],
)  # fmt: skip
# As rich draws a terminal, without its frame's buttons, and without the fonts that it has from the network.
_FRAME = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">
<title>The report of a replay, on a terminal</title>
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace;
  font-size: {char_height}px; line-height: {line_height}px; white-space: pre }}
.{unique_id}-title {{ font-family: sans-serif; font-size: 18px }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect width="{terminal_width}" height="{terminal_height}"/>
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


def shown() -> Text:
    """What the terminal shows, with its colours."""
    program = Path(sys.executable).with_name("prunewise")
    with tempfile.TemporaryDirectory() as home:
        done = subprocess.run(  # noqa: S603
            [str(program), *COMMAND.split()[1:]],
            cwd=ROOT,
            env={
                "PATH": os.environ["PATH"],
                "HOME": home,
                "COLUMNS": str(COLUMNS),
                "FORCE_COLOR": "1",
                "TERM": "xterm-256color",
                "LC_ALL": "C.UTF-8",
            },
            capture_output=True,
            text=True,
            check=True,
        )
    lines = done.stdout.splitlines()
    return Text("\n").join(Text.from_ansi(line) for line in [f"$ {COMMAND}", *lines])


def picture() -> str:
    """The picture, as SVG that needs no network."""
    console = Console(
        record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True, color_system="truecolor"
    )
    console.print(shown(), soft_wrap=True)
    svg = console.export_svg(title="", theme=_THEME, code_format=_FRAME, unique_id="report")
    return "\n".join(line.rstrip() for line in svg.splitlines() if line.strip()) + "\n"


def main() -> None:
    """Bring the picture up to date."""
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_text(picture(), encoding="utf-8")


if __name__ == "__main__":
    main()
