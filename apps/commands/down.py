"""`kappa down`: stop what `kappa up` started."""

from __future__ import annotations

from typing import Annotated

import typer

from apps.console import console, sentences_for_errors
from apps.local.stack import Stack
from apps.settings import load_running_settings


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(down)


def down(
    wipe: Annotated[bool, typer.Option(help="Remove all data, checkpoints and logs of the stack.")] = False,
) -> None:
    """Stop the jobs after their running batch, then Elasticsearch and Kafka. Data are kept.

    Examples:
    - `kappa down`
    - `kappa down --wipe`
    """
    with sentences_for_errors():
        stack = Stack(load_running_settings(), tell=lambda sentence: console.print(f"  {sentence}"))
        stopped = stack.down(wipe=wipe)
    console.print(f"stopped {', '.join(stopped)}" if stopped else "nothing was running")
    if wipe:
        console.print("data removed")
