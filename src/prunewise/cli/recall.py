"""`prunewise recall`: the full output that a marker stands for."""

from __future__ import annotations

from pathlib import Path

import click

from prunewise import recall as recalling
from prunewise.cli import console
from prunewise.cli.completion import SessionPath, references
from prunewise.cli.sessions import opened
from prunewise.wording import visible


@click.command(
    short_help="Print what a marker stands for.",
    epilog="Example: prunewise recall examples/session.jsonl '#7:full'",
)
@click.argument("session", type=SessionPath())
@click.argument("reference", metavar="REF", shell_complete=references)
@click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON document, with the tool and the images."
)
def recall(*, session: Path, reference: str, as_json: bool) -> None:
    """Print the output that the reference REF in a marker of SESSION leads to.

    SESSION is a session file of pi. REF is #LINE or an entry's id; in a shell, put it in quotes. Of a
    long output this prints the beginning; with :full behind REF it prints all of it, exactly as it is
    stored. On a terminal, without :full, what a terminal would obey is shown as an escape.
    """
    store = opened(session)
    text = recalling.recall(store, reference)
    if as_json:
        original = recalling.original(store, reference)
        console.write_json(
            {
                "reference": reference.strip().removesuffix(recalling.FULL),
                "tool": original.name,
                "text": text,
                "input": original.input,
                "images": list(original.images),
            }
        )
    else:
        on_terminal = console.is_terminal()
        full = reference.strip().endswith(recalling.FULL)
        console.write(visible(text) if on_terminal and not full else text)
        if on_terminal and not text.endswith("\n"):
            console.write("\n")
    console.warn(store.warnings)
