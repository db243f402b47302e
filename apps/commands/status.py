"""`kappa status`: what runs, and how far it is."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated, Final

import typer
from rich import box
from rich.table import Table

from apps.console import console, sentences_for_errors
from apps.local.stack import ProcessStatus, Stack
from apps.settings import load_running_settings

_COLOURS: Final = {"ready": "green", "starting": "yellow", "ended": "red", "off": "dim"}


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(status)


def status(
    as_json: Annotated[bool, typer.Option("--json", help="One JSON list instead of the table.")] = False,
) -> None:
    """Show every process of the local stack: pid, state, port, lag (records), batch time (s), watermark (event time).

    Exit code 1 when a process that was started has ended.

    Examples:
    - `kappa status`
    - `kappa status --json`
    """
    with sentences_for_errors():
        processes = Stack(load_running_settings()).status()
    if as_json:
        typer.echo(json.dumps([asdict(process) for process in processes], indent=2))
    else:
        console.print(_table(processes))
        for process in processes:
            if process.state == "ended":
                console.print(f"{process.name} has ended; its log: {process.log}. `kappa up` starts it again.")
    if any(process.state == "ended" for process in processes):
        raise typer.Exit(1)


def _table(processes: list[ProcessStatus]) -> Table:
    names = ("process", "state", "pid", "port", "lag", "batches", "batch", "watermark", "failures")
    table = Table(*names, box=box.SIMPLE, padding=(0, 1, 0, 0))
    for process in processes:
        table.add_row(
            process.name,
            f"[{_COLOURS[process.state]}]{process.state}[/]",
            str(process.pid or ""),
            str(process.port),
            *_progress(process),
        )
    return table


def _progress(process: ProcessStatus) -> tuple[str, ...]:
    progress = process.progress
    if progress is None:
        return ("",) * 5
    watermark = (
        datetime.fromtimestamp(progress.watermark_s, UTC).strftime("%m-%d %H:%M:%S") if progress.watermark_s else ""
    )
    return (
        _number(progress.lag_records),
        _number(progress.batches),
        "" if progress.batch_s is None else f"{progress.batch_s:.2f} s",
        watermark,
        _number(progress.failures),
    )


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}"
