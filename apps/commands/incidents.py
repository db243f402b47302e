"""`kappa incidents`: what Elasticsearch knows about incidents."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Annotated, Any

import orjson
import typer
from rich.live import Live

from apps.console import console, sentences_for_errors
from apps.elasticsearch import ElasticsearchUnavailableError, IncidentQuery, connect, search_incidents
from apps.incident_view import incident_table, since_ms
from apps.log_reader import now_ms
from apps.settings import load_running_settings

Found = list[Mapping[str, Any]]

_REFRESH_S = 2.0


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(incidents)


def incidents(
    open_only: Annotated[bool, typer.Option("--open", help="Only incidents that have not ended.")] = False,
    since: Annotated[
        str | None, typer.Option(help="Only incidents active since: 2h, 3d, or 2026-11-01T00:00Z (event time).")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="Most incidents shown, latest start first.")] = 50,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document per line instead of the table.")] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Stay and refresh every 2 s until Ctrl-C.")] = False,
) -> None:
    """Show incidents, latest first: start, end, severity and score (0-100), scope, resources, and what happened.

    Those of the generation in the settings; times are event times, UTC.

    Examples:
    - `kappa incidents`
    - `kappa incidents --open --watch`
    - `kappa incidents --since 2h --json`
    """
    if as_json and watch:
        message = "--json and --watch exclude each other"
        raise typer.BadParameter(message)
    with sentences_for_errors(ElasticsearchUnavailableError, ValueError):
        start = since_ms(since, now_ms()) if since else None
        settings = load_running_settings()
        query = IncidentQuery(open_only=open_only, since_ms=start, limit=limit, generation=settings.generation)
        client = connect(settings.elasticsearch)
        try:
            if watch:
                _watch(lambda: search_incidents(client, query))
            else:
                _show(search_incidents(client, query), as_json)
        finally:
            client.close()


def _watch(search: Callable[[], Found]) -> None:
    with suppress(KeyboardInterrupt), Live(incident_table(search()), console=console, auto_refresh=False) as live:
        while True:
            live.update(incident_table(search()), refresh=True)
            time.sleep(_REFRESH_S)


def _show(found: Found, as_json: bool) -> None:
    if as_json:
        for incident in found:
            typer.echo(orjson.dumps(incident).decode())
    elif found:
        console.print(incident_table(found))
    else:
        console.print("no incidents")
