"""`prunewise pi`: put the extension into pi, take it out, and say what is wrong with it."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from prunewise.cli import console
from prunewise.hosts.pi import doctor as examining
from prunewise.hosts.pi import install as installing
from prunewise.hosts.pi.doctor import Report
from prunewise.hosts.pi.protocol import Halves


@click.group(epilog="Example: prunewise pi install")
def pi() -> None:
    """Prune in the agent pi."""


_PROJECT = click.option(
    "--project", is_flag=True, help="In this folder's .pi only, not in pi's agent folder."
)
_JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")


@pi.command(epilog="Example: prunewise pi install")
@_PROJECT
@click.option(
    "--policy",
    type=click.Choice(("documented", "priced", "none")),
    metavar="POLICY",
    help="Set the policy too: documented, priced, or none for masking alone.",
)
@click.option("--masking/--no-masking", default=None, help="Set masking too.")
@_JSON
def install(*, project: bool, policy: str | None, masking: bool | None, as_json: bool) -> None:
    """Install the extension into pi, for the Python that runs this.

    It adds one file, and changes pi's settings only with --policy and --masking. Where only one half has
    settings, only that half is on: the strategies with dynamic-context-pruning.json, masking with a section
    pruning in pi's settings.json. Each has its own switch in pi. Install again to bring it up to date.
    """
    folder = Path.cwd() if project else None
    installing.set_policy(policy, masking=masking, project=folder)
    done = installing.install(folder)
    warnings = [examining.about_other(other) for other in examining.others_in(Path.cwd())]
    if as_json:
        document = {"path": str(done.path), "changed": done.changed, "because": done.because}
        console.write_json({**document, "warnings": warnings, **msgspec.to_builtins(done.halves)})
        return
    click.echo(console.one_line(f"{'Installed' if done.changed else 'Installed already'}: {done.path}"))
    click.echo(f"{_on(done.halves)}, since {done.because}.")
    for warning in warnings:
        click.echo(console.one_line(f"Warning: {warning}."))
    if done.changed:
        click.echo("Start pi, or type /reload in one that runs.")


def _on(halves: Halves) -> str:
    if halves.strategies and halves.masking:
        return "Both halves are on, the strategies and masking"
    if halves.strategies:
        return "The strategies are on and masking is off (on with /pruning settings enabled=true)"
    return "Masking is on and the strategies are off (on with /context-pruning on)"


@pi.command(epilog="Example: prunewise pi uninstall")
@_PROJECT
@_JSON
def uninstall(*, project: bool, as_json: bool) -> None:
    """Take the extension out of pi.

    Settings and sessions stay as they are.
    """
    path, was_there = installing.uninstall(Path.cwd() if project else None)
    if as_json:
        console.write_json({"path": str(path), "changed": was_there})
        return
    click.echo(console.one_line(f"{'Removed' if was_there else 'Nothing to remove'}: {path}"))


@pi.command(short_help="Say whether it works, and what is wrong.", epilog="Example: prunewise pi doctor")
@_JSON
def doctor(*, as_json: bool) -> int:
    """Say what is installed, whether it works, and what is in its way.

    The exit code is 1 where something is wrong.
    """
    report = examining.examine(Path.cwd())
    if as_json:
        console.write_json(msgspec.to_builtins(report))
    else:
        for line in _in_words(report):
            click.echo(console.one_line(line))
    return 1 if report.problems else 0


def _in_words(report: Report) -> list[str]:
    lines = [
        f"prunewise    {report.prunewise} ({report.python})",
        f"pi           {_program(report.pi)}",
        f"node         {_program(report.node)}",
        f"agent folder {report.agent_dir}",
    ]
    for place in report.installed:
        halves = Halves(place.strategies, place.masking)
        lines += [
            f"installed    {place.path} ({place.scope})",
            f"  python     {place.python}",
            f"  extension  {place.extension}",
            f"  {_on(halves)}, where no settings say otherwise",
        ]
    shake = report.handshake
    if shake is not None and not shake.problem:
        lines.append(f"engine       answers after {shake.seconds:.2f} s")
    lines += [f"also found   {other.path}: {', '.join(other.conflicts)}" for other in report.others]
    lines.append(f"policy       {report.policy}")
    lines += [f"note         {note}" for note in report.notes]
    lines += [f"problem      {problem}" for problem in report.problems]
    if not report.problems:
        lines.append("All is well.")
    return lines


def _program(program: examining.Program | None) -> str:
    return (
        "not found" if program is None else f"{program.version or 'of an unknown version'} ({program.path})"
    )


@pi.command(hidden=True)
def engine() -> None:
    """Serve one pi session: what the extension starts where it is told of no interpreter."""
    from prunewise.hosts.pi.server import main

    main()
