"""`prunewise pi`: put the extension into pi, take it out, and say what is wrong with it."""

from __future__ import annotations

from pathlib import Path

import click

from prunewise.hosts.pi import install as installing


@click.group()
def pi() -> None:
    """Prune in the agent pi."""


_PROJECT = click.option("--project", is_flag=True, help="In this project's .pi folder only.")


@pi.command()
@_PROJECT
def install(*, project: bool) -> None:
    """Install the extension into pi, for the Python that runs this."""
    done = installing.install(Path.cwd() if project else None)
    click.echo(f"{'Installed' if done.changed else 'Installed already'}: {done.path}")


@pi.command(hidden=True)
def engine() -> None:
    """Serve one pi session: what the extension starts where it finds no interpreter."""
    from prunewise.hosts.pi.server import main

    main()
