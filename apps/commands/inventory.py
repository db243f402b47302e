"""`kappa inventory`: what the resources are."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from apps.console import console, sentences_for_errors
from apps.control import arrival_ns, arrival_text, send_controls
from apps.inventory import InventoryFile, read_inventory
from apps.settings import load_running_settings

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
        at_ns = arrival_ns(at)
        found = read_inventory(file)
        _print_counts(found)
        if dry_run:
            console.print("nothing was sent")
            return
        when = arrival_text(send_controls(load_running_settings(), found.entries, at_ns))
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
