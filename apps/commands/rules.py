"""`kappa rules`: which results are skipped, and which values are not learned."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from apps.console import console, sentences_for_errors
from apps.control import arrival_ns, arrival_text, read_controls, rules_in_effect, send_controls
from apps.feed.errors import FeedError
from apps.rules import read_rules
from apps.rules_view import actions_text, conditions_text, scope_text
from apps.settings import load_running_settings
from topics.controls import Rule, RuleRemoval

commands = typer.Typer(
    name="rules", help="Suppression rules: results to skip, values not to learn.", no_args_is_help=True
)

At = Annotated[
    str | None, typer.Option(help="Arrival in history mode, ISO 8601; the log's newest arrival if not given.")
]


def register(app: typer.Typer) -> None:
    """Add the group of commands."""
    app.add_typer(commands)


@commands.command()
def apply(
    file: Annotated[Path, typer.Argument(help="TOML with tables [[rule]], or JSON (ending .json) with an array.")],
    at: At = None,
    dry_run: Annotated[bool, typer.Option(help="Check and show; send nothing.")] = False,
) -> None:
    r"""Send rules to the control topic; a rule of the same id is replaced. They hold from the window of their arrival.

    A rule has an **id**; a scope of patterns with `*` (**resource, service, region, metric**); conditions, all of which
    must hold: **direction** (high, low, new, silent), a deviation below **minimal_deviation** (in the metric's unit)
    or **minimal_relative_deviation** (0.2 = 20 % of the expected value), **intervals** of event time (start, end) and
    **weekly** ones (days, start, end as HH:MM, UTC); and what it does: **skip_result** (true if not given),
    **skip_learning** (false if not given).

    Examples:
    - `kappa rules apply rules.toml --dry-run`
    - `kappa rules apply rules.toml`

    with, in the file:
    `[[rule]]`, `id = "backup"`, `resource = "db-*"`, `metric = "system.disk.*"`, `direction = "high"`,
    `weekly = [{days = ["sat", "sun"], start = "22:00", end = "02:00"}]`, `skip_learning = true`
    """
    with sentences_for_errors():
        at_ns, rules = arrival_ns(at), read_rules(file)
        console.print(_table(rules))
        if dry_run:
            console.print("nothing was sent")
            return
        when = arrival_text(send_controls(load_running_settings(), rules, at_ns))
        console.print(f"[green]sent[/] {len(rules):,} rules{when}", highlight=False)


@commands.command(name="list")
def list_rules() -> None:
    """Show the rules that hold at the end of the log."""
    with sentences_for_errors():
        rules = rules_in_effect(read_controls(load_running_settings()))
        console.print(_table(rules) if rules else "no rules")


@commands.command()
def remove(
    name: Annotated[str, typer.Argument(metavar="ID", help="Id of the rule; `kappa rules list` shows them.")],
    at: At = None,
) -> None:
    """End a rule, from the window in which this arrives.

    Example: `kappa rules remove backup`
    """
    with sentences_for_errors():
        at_ns, settings = arrival_ns(at), load_running_settings()
        known = [rule.id for rule in rules_in_effect(read_controls(settings))]
        if name not in known:
            message = f"there is no rule {name!r}; rules that hold: {', '.join(known) or 'none'}"
            raise FeedError(message)
        when = arrival_text(send_controls(settings, [RuleRemoval(name)], at_ns))
        console.print(f"[green]removed[/] {escape(name)}{when}", highlight=False)


def _table(rules: Sequence[Rule]) -> Table:
    table = Table("id", "scope", "holds for", "skips", "note", box=None, pad_edge=False)
    for rule in rules:
        cells = (rule.id, scope_text(rule), conditions_text(rule), actions_text(rule), rule.note or "")
        table.add_row(*map(escape, cells))
    return table
