"""`kappa verdict`: what an operator says of an incident."""

from __future__ import annotations

from typing import Annotated, get_args

import typer
from rich.markup import escape

from apps.console import console, sentences_for_errors
from apps.control import arrival_ns, arrival_text, send_controls
from apps.elasticsearch import ElasticsearchUnavailableError, IncidentQuery, connect, search_incidents
from apps.feed.errors import FeedError
from apps.feed.times import parse_time_ns
from apps.settings import Settings, load_running_settings
from apps.verdicts import verdict_on
from topics.records import OperatorVerdict, Opinion, Subject

_NS_PER_MS = 10**6


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(verdict)


def verdict(  # noqa: PLR0913, PLR0917 - one parameter per option
    target: Annotated[
        str,
        typer.Argument(metavar="INCIDENT", help="Id of an incident (`kappa incidents`); or, with --from, a resource."),
    ],
    opinion: Annotated[Opinion, typer.Argument(metavar="VERDICT", help=f"{', '.join(get_args(Opinion))}.")],
    note: Annotated[str | None, typer.Option(help="Why, in words; stands in the incident's record.")] = None,
    start: Annotated[
        str | None, typer.Option("--from", help="Of a resource's incidents: those active since, ISO 8601, event time.")
    ] = None,
    end: Annotated[str | None, typer.Option("--to", help="And those that began before, ISO 8601, event time.")] = None,
    metric: Annotated[str | None, typer.Option(help="Only this metric of the resource.")] = None,
    at: Annotated[
        str | None, typer.Option(help="Arrival in history mode, ISO 8601; the log's newest arrival if not given.")
    ] = None,
) -> None:
    """Say of an incident that it is expected, wrong or confirmed. It takes effect with the window of its arrival.

    **expected**: it is closed, and its series take what they do now for normal. **wrong**: it is closed. Both stay
    quiet while the same evidence goes on. **confirmed**: the incident says so. The verdict is part of the log: a replay
    hears it at the same place.

    Examples:
    - `kappa verdict 76f8fe0e00fd13e1 expected --note "new release"`
    - `kappa verdict 76f8fe0e00fd13e1 wrong`
    - `kappa verdict vm-0017 confirmed --from 2026-11-01T10:00Z --to 2026-11-01T12:00Z`
    """
    with sentences_for_errors(ElasticsearchUnavailableError):
        at_ns, settings = arrival_ns(at), load_running_settings()
        if start is None and (end or metric):
            message = "--to and --metric go with --from: then the first argument is a resource"
            raise FeedError(message)
        if start is None:
            control = _on_incident(settings, target, opinion, note)
        else:
            control = OperatorVerdict(opinion, None, [Subject(target, metric)], _ms(start), _ms(end), note)
        when = arrival_text(send_controls(settings, [control], at_ns))
        console.print(f"[green]sent[/] {escape(target)} is {opinion}{when}", highlight=False)


def _ms(moment: str | None) -> int | None:
    try:
        return None if moment is None else parse_time_ns(moment) // _NS_PER_MS
    except ValueError as mistake:
        raise FeedError(str(mistake)) from mistake


def _on_incident(settings: Settings, name: str, opinion: Opinion, note: str | None) -> OperatorVerdict:
    client = connect(settings.elasticsearch)
    try:
        found = search_incidents(client, IncidentQuery(generation=settings.generation, incident=name, limit=1))
    finally:
        client.close()
    if not found:
        message = f"there is no incident {name!r} in generation {settings.generation}: see `kappa incidents`"
        raise FeedError(message)
    return verdict_on(found[0], opinion, note)
