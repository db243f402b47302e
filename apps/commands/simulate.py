"""`kappa simulate`: a telecom cloud with known faults, written to Kafka."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from apps.settings import load_settings
from apps.simulator.durations import parse_duration_ms
from apps.simulator.faults import Fault, write_truth
from apps.simulator.stream import Plan
from apps.simulator.writer import Observer, SimulationError, raw_partitions, run, wall_clock_ms
from apps.topics_admin import BrokerUnreachableError
from pipelines.transport import TransportError

_FAULTS_SHOWN = 20


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("simulate")(simulate)


def simulate(  # noqa: PLR0913, PLR0917 - options of the command
    seed: Annotated[
        int, typer.Option(help="Chooses everything that is random; the same seed gives the same data.")
    ] = 1,
    resources: Annotated[int, typer.Option(help="Hosts, network functions and cell sites; about 11 series each.")] = 45,
    history: Annotated[str, typer.Option(help="Past to write at full speed first: 2d, 12h, 90m, 0.")] = "2d",
    live: Annotated[
        str, typer.Option(help="How long to go on, from the start of the command: 15m, 1h, 0, forever.")
    ] = "forever",
    interval_s: Annotated[int, typer.Option(help="Seconds between two reports of a series.")] = 60,
    with_faults: Annotated[bool, typer.Option("--faults/--no-faults", help="Whether anything goes wrong.")] = True,
    truth: Annotated[Path | None, typer.Option(help="File for the faults and their times, JSON lines.")] = None,
) -> None:
    """Simulate a telecom cloud: metrics, logs, disorder in arrival, and faults whose truth is known.

    Writes the history first, each record with its arrival time in a header, then goes on live. The history needs
    `[time] arrival = "history"` and empty raw topics; start the heartbeat when the history is written.

    **Examples**

    `kappa simulate --history 2d --live 15m --truth truth.jsonl`

    `kappa simulate --history 0 --resources 200 --interval-s 10 --no-faults`
    """
    console = Console()
    try:
        settings = load_settings()
        history_ms, live_ms = parse_duration_ms(history), None if live == "forever" else parse_duration_ms(live)
        step_ms = interval_s * 1000
        start_ms = (wall_clock_ms() - history_ms) // step_ms * step_ms if interval_s > 0 else 0
        plan = Plan(start_ms, history_ms, live_ms, seed, resources, interval_s, with_faults, settings.time)
        partitions = raw_partitions(settings, plan)
        faults = plan.faults()
        if truth is not None:
            write_truth(truth, faults)
        console.print(fault_table(faults[:_FAULTS_SHOWN], len(faults)))
        with _progress(console, plan) as observer, _stop_on_signals() as stop:
            counts = run(plan, partitions, settings.kafka.bootstrap_servers, observer, stop)
    except (SimulationError, BrokerUnreachableError, TransportError, ValueError) as error:
        typer.secho(f"kappa simulate: {error}", fg=typer.colors.RED, err=True)
        raise typer.Exit(1) from error
    console.print("written: " + ", ".join(f"{count:,} {label}" for label, count in counts.items()))


def fault_table(faults: tuple[Fault, ...], total: int) -> Table:
    """Return the plan of faults for people to read."""
    title = f"{total} faults planned" + (f", the first {len(faults)}" if total > len(faults) else "")
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD)
    for heading in ("fault", "from (UTC)", "what happens", "find"):
        table.add_column(heading, no_wrap=heading in ("fault", "from (UTC)"))
    for fault in faults:
        table.add_row(fault.id, _utc(fault.start_ms), fault.description, "must" if fault.must_find else "no page")
    return table


def _utc(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%m-%d %H:%M:%S")


@contextmanager
def _progress(console: Console, plan: Plan) -> Iterator[Observer]:
    """Show how far event time has come and how fast; the bar is the history."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[reached]}  {task.fields[sent]:,} records  {task.fields[speed]:,.0f}/s"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console) as progress:
        task = progress.add_task(
            "history" if plan.history_ms else "live", total=plan.history_ms or None, reached="", sent=0, speed=0.0
        )

        def sent(count: int, arrival_ms: int) -> None:
            total = progress.tasks[task].fields["sent"] + count
            speed = total / max(progress.tasks[task].elapsed or 0.0, 0.1)
            progress.update(task, sent=total, speed=speed)
            if arrival_ms:
                progress.update(task, completed=arrival_ms - plan.start_ms, reached=_utc(arrival_ms))

        def handover(arrival_ms: int) -> None:
            progress.update(task, completed=plan.history_ms, reached=_utc(arrival_ms))
            console.print(f"history written up to {_utc(arrival_ms)} UTC; live from here")
            progress.update(task, description="live", total=None)

        yield Observer(sent, handover)


@contextmanager
def _stop_on_signals() -> Iterator[threading.Event]:
    """Return an event that Ctrl-C and SIGTERM set."""
    stop = threading.Event()
    kept = {number: signal.signal(number, lambda *_: stop.set()) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)
