"""`kappa inventory`: what the resources are."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from apps.console import console, sentences_for_errors
from apps.feed.times import format_ns, parse_time_ns
from apps.inventory import InventoryFile, apply_inventory, read_inventory
from apps.settings import load_running_settings

_NS_PER_MS = 10**6

commands = typer.Typer(
    name="inventory", help="Which service, region and site a resource belongs to.", no_args_is_help=True
)


def register(app: typer.Typer) -> None:
    """Add the group of commands."""
    app.add_typer(commands)


@commands.command()
def apply(
    file: Annotated[
        Path, typer.Argument(help="CSV with header, JSON array or JSON lines: resource, service, region, site.")
    ],
    at: Annotated[
        str | None, typer.Option(help="Arrival in history mode, ISO 8601; the log's newest arrival if not given.")
    ] = None,
    dry_run: Annotated[bool, typer.Option(help="Check and count; send nothing.")] = False,
) -> None:
    """Send inventory to the control topic. It takes effect with the window of its arrival, also in a replay.

    Examples:
    - `kappa inventory apply inventory.csv --dry-run`
    - `kappa inventory apply inventory.csv`
    - `kappa inventory apply routers.jsonl --at 2017-06-29T16:00:00Z`, before feeding history
    """
    with sentences_for_errors():
        try:
            at_ns = None if at is None else parse_time_ns(at)
        except ValueError as mistake:
            raise typer.BadParameter(str(mistake), param_hint="--at") from mistake
        found = read_inventory(file)
        _print_counts(found)
        if dry_run:
            console.print("nothing was sent")
            return
        arrival_ms = apply_inventory(load_running_settings(), found.entries, at_ns)
        when = "" if arrival_ms is None else f", arriving at {format_ns(arrival_ms * _NS_PER_MS)}"
        console.print(f"[green]sent[/] {len(found.entries):,} control records{when}", highlight=False)


def _print_counts(found: InventoryFile) -> None:
    parts = [
        f"{len({getattr(entry, name) for entry in found.entries} - {None}):,} {plural}"
        for name, plural in (("service", "services"), ("region", "regions"), ("site", "sites"))
    ]
    console.print(f"{len(found.entries):,} resources, {', '.join(parts)}", highlight=False)
    if found.overridden:
        console.print(
            f"[yellow]note:[/] {found.overridden:,} entries are overridden by a later one of the same resource"
        )
