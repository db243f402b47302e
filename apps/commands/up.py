"""`kappa up`: start Kafka, Elasticsearch and the jobs on this machine."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from apps.console import console, environment_from, override, sentences_for_errors
from apps.local.jobs import JOBS
from apps.local.stack import Stack
from apps.settings import load_running_settings


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(up)


def up(
    history: Annotated[
        bool, typer.Option(help="Arrival comes from the feed's headers, not from the broker's clock; no heartbeat.")
    ] = False,
    assignments: Annotated[
        list[str] | None, typer.Option("--set", help="A setting, `section.name=value`; may be repeated.")
    ] = None,
    jobs: Annotated[str | None, typer.Option(help=f"Only these jobs, of {','.join(JOBS)}; servers always run.")] = None,
) -> None:
    """Start Kafka, Elasticsearch and the jobs on loopback; data of an earlier run are kept.

    What runs already is left alone; what has ended is started again. Logs are in `<data_dir>/logs`.

    Examples:
    - `kappa up`
    - `kappa up --history --set time.window_s=15 --set novelty.buckets=4`
    - `kappa up --jobs statistics,novelty`
    """
    overrides = environment_from(assignments or [])
    if history:
        overrides["KAPPA_TIME__ARRIVAL"] = "history"
    override(overrides)
    wanted = _jobs(jobs) if jobs is not None else None
    with sentences_for_errors():
        started = time.monotonic()
        stack = Stack(load_running_settings(), overrides, tell=lambda sentence: console.print(f"  {sentence}"))
        stack.up(wanted)
        console.print(f"[green]ready[/] after {time.monotonic() - started:.0f} s; see `kappa status`, `kappa logs`")


def _jobs(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    unknown = [name for name in names if name not in JOBS]
    if unknown:
        message = f"no such job: {', '.join(unknown)}; there are {', '.join(JOBS)}"
        raise typer.BadParameter(message, param_hint="--jobs")
    return names
