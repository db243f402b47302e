"""`kappa topics`: the topics of the registry in the broker."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table

from apps.console import console, sentences_for_errors
from apps.feed.times import format_ns
from apps.records_view import Start, full_name, parse_start, render, watch
from apps.settings import load_running_settings
from apps.topics_admin import Difference, TopicsAdmin, TopicsDifferError, check_topics, ensure_topics, wanted_topics
from topics.schemas import topics_table

_NS_PER_MS = 10**6

commands = typer.Typer(name="topics", help="The topics of the registry in the broker.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    """Add the group of commands."""
    app.add_typer(commands)


@commands.command()
def create() -> None:
    """Create every topic of the generation that is missing; refuse, with a table, where one differs. Safe to repeat.

    Example: `KAPPA_KAFKA__RAW_PARTITIONS=4 kappa topics create`
    """
    with sentences_for_errors():
        settings = load_running_settings()
        try:
            created = ensure_topics(settings)
        except TopicsDifferError as refused:
            _print_differences(refused.differences)
            raise typer.Exit(1) from refused
        for name in created:
            console.print(f"created {name}")
        console.print(f"[green]all {len(wanted_topics(settings))} topics are as wanted[/]")


@commands.command()
def check() -> None:
    """Say what is missing or differs; exit code 1 if anything does."""
    with sentences_for_errors():
        settings = load_running_settings()
        missing, wrong = check_topics(settings)
        for name in missing:
            console.print(f"missing: {name}; run `kappa topics create`")
        if wrong:
            _print_differences(wrong)
        if missing or wrong:
            raise typer.Exit(1)
        console.print(f"[green]all {len(wanted_topics(settings))} topics are as wanted[/]")


@commands.command(name="list")
def list_topics() -> None:
    """Show partitions, records (ticks and markers included) and the broker's time of the first and last record."""
    with sentences_for_errors():
        settings = load_running_settings()
        names = [wanted.name for wanted in wanted_topics(settings)]
        table = Table(box=None, pad_edge=False)
        for column in ("topic", "partitions", "records", "first appended", "last appended"):
            table.add_column(column, no_wrap=True)
        for content in TopicsAdmin(settings.kafka.bootstrap_servers).contents(names):
            times = (_moment(content.first_ms), _moment(content.last_ms))
            table.add_row(content.name, str(content.partitions), f"{content.messages:,}", *times)
        console.print(table)


@commands.command()
def show(
    topic: Annotated[str, typer.Argument(help="Name in the registry; a derived one of the live generation.")],
    start: Annotated[
        str, typer.Option("--from", help="latest, beginning, an ISO 8601 time (broker's time) or an offset.")
    ] = "latest",
    limit: Annotated[int, typer.Option(min=1, help="Most records shown.")] = 10,
    follow: Annotated[bool, typer.Option(help="Go on with new records until Ctrl-C.")] = False,
    ticks: Annotated[bool, typer.Option(help="Show ticks of the arrival clock too.")] = False,
) -> None:
    """Show records: place, time, key, headers and JSON value.

    Examples:
    - `kappa topics show novelty.incidents --limit 3`
    - `kappa topics show telemetry.metrics --from 2026-11-01T00:00:00Z`
    - `kappa topics show telemetry.statistics --follow`
    """
    with sentences_for_errors():
        settings = load_running_settings()
        try:
            name, begin = full_name(topic, settings), parse_start(start)
            _show(name, settings.kafka.bootstrap_servers, begin, limit, follow=follow, ticks=ticks)
        except ValueError as mistake:
            raise typer.BadParameter(str(mistake)) from mistake


def _show(name: str, bootstrap_servers: str, begin: Start, limit: int, *, follow: bool, ticks: bool) -> None:
    shown = 0
    try:
        for record in watch(bootstrap_servers, name, begin, limit, follow=follow, ticks=ticks):
            console.print(render(record))
            shown += 1
    except KeyboardInterrupt:
        return
    if not shown:
        console.print(f"no records in {name}" + ("" if ticks else " besides ticks"))


@commands.command()
def docs() -> None:
    """Print the registry as Markdown: topics, keys, records, writers, readers, retention."""
    typer.echo(topics_table())


def _print_differences(differences: tuple[Difference, ...] | list[Difference]) -> None:
    table = Table("topic", "setting", "wanted", "found", "what to do", box=None, pad_edge=False)
    for item in differences:
        table.add_row(item.topic, item.setting, item.wanted, item.found, item.remedy)
    console.print("[red]topics differ from what is wanted; nothing was changed[/]")
    console.print(table, markup=False)


def _moment(time_ms: int | None) -> str:
    return "" if time_ms is None else format_ns(time_ms * _NS_PER_MS)[:19]
