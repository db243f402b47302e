"""`kappa evaluate`: detection quality on public labelled data."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import orjson
import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from apps.console import console, error_console, sentences_for_errors

if TYPE_CHECKING:
    from apps.evaluate.interface import Detector

_ALL: Final = "all"


class DataSet(StrEnum):
    """What can be evaluated."""

    NAB = "nab"
    CISCO = "cisco"
    SMD = "smd"
    KPI = "kpi"
    SYNTHETIC = "synthetic"
    ALL = "all"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(evaluate)


def evaluate(
    data_set: Annotated[DataSet, typer.Argument(help="Data set; `all` of them for the whole report.")],
    folder: Annotated[
        Path | None,
        typer.Argument(
            metavar="DIR",
            help="Folder of the data set, or a folder that holds nab/, smd/, kpi_aiops2018/ and cisco_telemetry/. "
            "`synthetic` injects faults into the Cisco data there and leaves that out without it.",
        ),
    ] = None,
    detector: Annotated[
        list[str] | None,
        typer.Option(help="kappa, gaussian, half-space-trees, normal, or all. May be repeated.", show_default="kappa"),
    ] = None,
    report: Annotated[
        Path | None, typer.Option(help="Markdown file to write; its pictures go into a folder of that name beside it.")
    ] = None,
    scores: Annotated[
        Path | None,
        typer.Option(help="Folder for the scores, one Parquet file per recording: surprise (-log10 p) and alarm."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Tables as JSON instead of on the screen.")] = False,
) -> None:
    """Measure detection quality: every recording streamed in event time, each window scored before it is learned.

    NAB score (0-100), VUS-PR (0-1), F1 within 7 windows (0-1), Cisco's rules (delays in seconds), and on synthetic
    series false alarms (observed over nominal), adoption of shifts and spikes, alarms per series and day. The same
    input gives the same bytes. `kappa` takes about two minutes of CPU time for everything, `half-space-trees` over ten.

    Examples:
    - `kappa evaluate nab data/nab`
    - `kappa evaluate smd data/smd --detector kappa --detector normal --scores scores`
    - `kappa evaluate synthetic`
    - `kappa evaluate all data --detector all --report docs/quality.md`
    """
    # Loading the models compiles them: other commands need not wait for it.
    from apps.evaluate.document import HEADING  # noqa: PLC0415
    from apps.evaluate.recordings import DataError  # noqa: PLC0415
    from apps.evaluate.report import as_objects, show, summary, write  # noqa: PLC0415
    from apps.evaluate.run import Evaluation  # noqa: PLC0415

    detectors = _detectors(detector or ["kappa"])
    with sentences_for_errors(DataError):
        with _progress() as progress:
            sections = Evaluation(detectors, scores, _begin(progress)).sections(data_set.value, folder)
        tables = [summary(sections, list(detectors)), *(table for section in sections for table in section.tables)]
        if report is not None:
            write(report, HEADING, sections, list(detectors))
        if as_json:
            typer.echo(orjson.dumps(as_objects(tables), option=orjson.OPT_INDENT_2).decode())
        else:
            show(console, tables)


def _detectors(names: list[str]) -> dict[str, Detector]:
    """Return the detectors of these names, in order."""
    from apps.evaluate.detectors import DETECTORS  # noqa: PLC0415

    chosen = list(DETECTORS) if _ALL in names else list(dict.fromkeys(names))
    unknown = [name for name in chosen if name not in DETECTORS]
    if unknown:
        message = f"no detector {unknown[0]!r}; there are {', '.join(DETECTORS)} and all"
        raise typer.BadParameter(message, param_hint="--detector")
    return {name: DETECTORS[name]() for name in chosen}


def _progress() -> Progress:
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=error_console,
        transient=True,
    )


def _begin(progress: Progress) -> Callable[[str, int], Callable[[], None]]:
    def begin(what: str, steps: int) -> Callable[[], None]:
        task = progress.add_task(what, total=steps)
        return lambda: progress.advance(task)

    return begin
