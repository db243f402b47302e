"""The `kappa` command. Each module of `apps.commands` holds one command or group of commands."""

from __future__ import annotations

import importlib
import pkgutil

import typer

import apps.commands

app = typer.Typer(
    name="kappa",
    help="Run, feed and ask the telecom anomaly detection chain.",
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
    rich_markup_mode="markdown",
)

for module in sorted(item.name for item in pkgutil.iter_modules(apps.commands.__path__)):
    importlib.import_module(f"apps.commands.{module}").register(app)


def main() -> None:
    """Entry point of the console script."""
    app()


if __name__ == "__main__":
    main()
