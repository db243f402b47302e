"""`kappa logs`: what the processes say."""

from __future__ import annotations

from typing import Annotated

import typer

from apps.console import sentences_for_errors
from apps.local.follow import appended_lines, last_lines
from apps.local.jobs import JOBS
from apps.local.stack import SERVERS
from apps.settings import load_running_settings

_NAMES = (*SERVERS, *JOBS)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(logs)


def logs(
    name: Annotated[
        str | None, typer.Argument(metavar="[JOB]", help=f"One of {', '.join(_NAMES)}; all if absent.")
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Show new lines until Ctrl-C.")] = False,
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, help="Last lines of each log to show first.")] = 20,
) -> None:
    """Show the logs of the local stack; those of the jobs have one JSON object per line.

    Examples:
    - `kappa logs`
    - `kappa logs novelty -f`
    - `kappa logs kafka -n 200`
    """
    if name is not None and name not in _NAMES:
        message = f"there is no {name}; there are {', '.join(_NAMES)}"
        raise typer.BadParameter(message)
    with sentences_for_errors():
        folder = load_running_settings().data_dir.absolute() / "logs"
    files = {item: folder / f"{item}.log" for item in ([name] if name else _NAMES)}
    if not follow and not any(path.is_file() for path in files.values()):
        typer.echo(f"no logs in {folder}: nothing was started yet", err=True)
        raise typer.Exit(1)
    prefix = "" if name else "{:<13} | "
    for source, line in last_lines(files, lines):
        typer.echo(prefix.format(source) + line)
    try:
        for source, line in appended_lines(files) if follow else ():
            typer.echo(prefix.format(source) + line)
    except KeyboardInterrupt:
        raise typer.Exit(0) from None
