"""`kappa series`: one series beside what the model expected of it."""

from __future__ import annotations

from typing import Annotated, Any

import orjson
import typer

from apps.console import console, sentences_for_errors
from apps.series_history import NoScoresError, last_scores, series_table, series_windows, windows_table
from apps.settings import load_running_settings


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(series)


def series(
    resource: Annotated[str, typer.Argument(help="Name of the resource, for example vm-0017.")],
    metric: Annotated[
        str | None,
        typer.Argument(
            help="Metric name, or with attributes: log.severity{severity=ERROR}. Lists all series if absent."
        ),
    ] = None,
    last: Annotated[int, typer.Option(min=1, help="Number of windows, the latest ones.")] = 20,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per line instead of the table.")] = False,
) -> None:
    """Show a series' windows: actual, expected, 99 % interval (in the series' unit), score (0-100).

    Reads the scores from Kafka, also those too low to be indexed.

    Examples:
    - `kappa series vm-0017`
    - `kappa series vm-0017 system.cpu.utilization --last 60`
    - `kappa series vm-0017 'log.severity{severity=ERROR}' --json`
    """
    with sentences_for_errors(NoScoresError):
        scores = last_scores(load_running_settings(), resource, last)
        if metric is None:
            _print_lines(scores) if as_json else console.print(series_table(scores, f"{resource}, last {last} windows"))
            return
        windows = series_windows(scores, metric)
        if not windows:
            message = (
                f"{resource} has no series {metric!r} in its last {last} windows: `kappa series {resource}` lists them"
            )
            raise NoScoresError(message)
        _print_lines(windows) if as_json else console.print(windows_table(windows, f"{resource} {metric}"))


def _print_lines(records: list[Any]) -> None:
    for record in records:
        typer.echo(orjson.dumps(record).decode())
