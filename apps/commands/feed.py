"""`kappa feed`: files into the log."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Literal

import typer

from apps.console import console, sentences_for_errors
from apps.feed.delays import parse_delay
from apps.feed.display import FeedDisplay, show_otlp_result, show_result
from apps.feed.errors import FeedError
from apps.feed.merge import MergeOptions
from apps.feed.otlp import feed_otlp
from apps.feed.run import FeedOptions, feed_tables
from apps.feed.series import Selection, parse_rules
from apps.feed.sources import ColumnNames, Source, open_source
from apps.feed.times import parse_time_ns
from apps.settings import Settings, load_running_settings
from topics.records import KINDS

_FORMAT_HELP = (
    "long: columns resource, metric, time, value. wide: a column per metric, a file per resource. "
    "otlp: captured Collector messages. auto: long if it has the columns, else wide."
)
_KIND_HELP = "gauge, delta, cumulative or ratio for all metrics, or PATTERN=KIND; the first pattern that fits wins."


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(feed)


def feed(  # noqa: PLR0913, PLR0917 - one parameter per option
    files: Annotated[list[Path], typer.Argument(help="CSV, CSV.gz or Parquet; with --format otlp JSON lines.")],
    format: Annotated[Literal["auto", "long", "wide", "otlp"], typer.Option(help=_FORMAT_HELP)] = "auto",  # noqa: A002
    time_column: Annotated[str | None, typer.Option("--time", help="Time column; found by its usual names.")] = None,
    time_unit: Annotated[
        Literal["auto", "s", "ms", "us", "ns", "iso"], typer.Option(help="Unit of times since 1970, or ISO 8601.")
    ] = "auto",
    resource: Annotated[str | None, typer.Option(help="Resource column; in wide files else the file name.")] = None,
    metric: Annotated[str | None, typer.Option(help="Metric column of long files.")] = None,
    value: Annotated[str | None, typer.Option(help="Value column of long files.")] = None,
    kind: Annotated[list[str] | None, typer.Option(help=_KIND_HELP)] = None,
    unit: Annotated[list[str] | None, typer.Option(help="Unit of all metrics (1), or PATTERN=UNIT.")] = None,
    include: Annotated[list[str] | None, typer.Option(help="Feed only metrics that fit this pattern.")] = None,
    exclude: Annotated[list[str] | None, typer.Option(help="Leave out metrics that fit this pattern.")] = None,
    delay: Annotated[
        str, typer.Option(help="Arrival behind event time, seconds: 2, uniform:0:5 or exponential:1.5.")
    ] = "0",
    seed: Annotated[int, typer.Option(help="Seed of the delays; the same seed gives the same arrivals.")] = 0,
    shift_to: Annotated[
        str | None, typer.Option(help="Move all times by one constant; the first becomes this one: ISO 8601 or now.")
    ] = None,
    flush: Annotated[bool, typer.Option(help="At the end move the clock on until every window is closed.")] = True,
    tick_s: Annotated[
        int | None, typer.Option(min=1, help="Seconds of arrival between ticks; one per window if not given.")
    ] = None,
    hold_points: Annotated[int, typer.Option(min=1, help="Most points in memory, 28 bytes each.")] = 50_000_000,
    signal: Annotated[
        Literal["auto", "metrics", "logs"], typer.Option(help="What otlp files hold; found by content.")
    ] = "auto",
) -> None:
    """Feed files to a chain that runs in history mode (`kappa up --history`), in the order of arrival.

    Arrival is event time + delay. Ticks of the arrival clock go along, so windows close as they would have live.

    Examples:
    - `kappa feed routers/*.csv.gz`
    - `kappa feed kpi.parquet --exclude label --delay exponential:1.5`
    - `kappa feed day1.csv --no-flush`, then `kappa feed day2.csv`
    - `kappa feed counters.csv --kind '*.bytes=cumulative' --unit '*.bytes=By'`
    - `kappa feed --format otlp metrics.json.jsonl.gz logs.json.jsonl.gz`
    """
    with sentences_for_errors():
        settings = load_running_settings()
        if format == "otlp":
            _refuse_shift(shift_to)
            show_otlp_result(console, feed_otlp(settings, files, None if signal == "auto" else signal, flush=flush))
            return
        try:
            options = FeedOptions(
                merge=MergeOptions(parse_delay(delay), seed, hold_points=hold_points),
                kinds=parse_rules(kind or (), "gauge", KINDS),
                units=parse_rules(unit or (), "1"),
                shift_to_ns=_shift_ns(shift_to),
                flush=flush,
                tick_s=tick_s,
            )
        except ValueError as mistake:
            raise typer.BadParameter(str(mistake)) from mistake
        names = ColumnNames(time_column, resource, metric, value)
        selection = Selection(tuple(include or ()), tuple(exclude or ()))
        forced = None if time_unit == "auto" else time_unit
        _feed(settings, [open_source(path, names, selection, forced, format) for path in files], options)


def _feed(settings: Settings, sources: list[Source], options: FeedOptions) -> None:
    started = time.monotonic()
    with FeedDisplay(console) as display:
        result = feed_tables(settings, sources, options, display, lambda found: display.found(sources, found))
    show_result(console, result, time.monotonic() - started)


def _shift_ns(text: str | None) -> int | None:
    if text is None:
        return None
    return time.time_ns() if text == "now" else parse_time_ns(text)


def _refuse_shift(shift_to: str | None) -> None:
    if shift_to is not None:
        message = "--shift-to does not work with --format otlp: the times inside the messages cannot be moved"
        raise FeedError(message)
