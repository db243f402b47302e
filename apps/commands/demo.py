"""`kappa demo`: see the whole chain at work."""

from __future__ import annotations

from typing import Annotated

import typer

from apps.console import console, environment_from, sentences_for_errors
from apps.demo.run import DemoOptions, demo_settings, run_demo
from apps.simulator.durations import parse_duration_ms


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(demo)


def demo(
    once: Annotated[bool, typer.Option(help="End by itself; exit code 0 only if all faults were found.")] = False,
    history: Annotated[str, typer.Option(help="Past to write at full speed first: 2d, 12h, 90m.")] = "2d",
    live: Annotated[str, typer.Option(help="With --once: how long to go on in real time.")] = "10m",
    seed: Annotated[int, typer.Option(help="The same seed gives the same cloud and the same faults.")] = 1,
    resources: Annotated[int, typer.Option(help="Hosts, network functions and cell sites, about 11 series each.")] = 45,
    assignments: Annotated[
        list[str] | None, typer.Option("--set", help="A setting, `section.name=value`; may be repeated.")
    ] = None,
) -> None:
    """Start Kafka, Elasticsearch and the jobs, simulate a telecom cloud with faults, and show the incidents.

    Two days of history are written at full speed, then the cloud goes on live, with faults every few minutes. Stays
    until Ctrl-C, then stops all it started. Data are in `.kappa/demo`, fresh in every run; other commands see the
    running demo with `KAPPA_DATA_DIR=.kappa/demo`.

    Examples:
    - `kappa demo`
    - `kappa demo --once --live 20m`
    - `kappa demo --set kafka.bootstrap_servers=127.0.0.1:29092`
    """
    try:
        history_ms, live_ms = parse_duration_ms(history), parse_duration_ms(live)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    overrides = environment_from(assignments or [])
    with sentences_for_errors():
        settings = demo_settings(overrides)
        passed = run_demo(DemoOptions(once, history_ms, live_ms, seed, resources), settings, console)
    raise typer.Exit(0 if passed else 1)
