"""What commands share: settings from the command line, and errors shown as one sentence instead of a traceback."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import typer
from pydantic import ValidationError
from rich.console import Console
from rich.markup import escape

from apps.feed.errors import FeedError
from apps.local.errors import LocalStackError
from apps.settings import Settings
from apps.topics_admin import BrokerUnreachableError, TopicsDifferError

#: Errors whose message tells the user what to do, raised behind more than one command.
_TELLING: Final[tuple[type[Exception], ...]] = (FeedError, LocalStackError, BrokerUnreachableError, TopicsDifferError)

console = Console()
error_console = Console(stderr=True)


@contextmanager
def sentences_for_errors(*others: type[Exception]) -> Iterator[None]:
    """Turn errors that tell the user what to do into one sentence and exit code 1; `others` are a command's own."""
    try:
        yield
    except ValidationError as mistakes:
        for mistake in mistakes.errors():
            place = ".".join(str(part) for part in mistake["loc"]) or "settings"
            error_console.print(f"[red]{place}:[/] {mistake['msg']}", highlight=False)
        raise typer.Exit(1) from mistakes
    except (*_TELLING, *others) as error:
        error_console.print("[red]error:[/]", escape(str(error)), highlight=False, soft_wrap=True, markup=True)
        raise typer.Exit(1) from error


def environment_from(assignments: Sequence[str]) -> dict[str, str]:
    """Return `section.name=value` arguments as environment variables; `time.window_s=10` is `KAPPA_TIME__WINDOW_S`.

    Raises:
        typer.BadParameter: An argument has another shape, or there is no such setting.
    """
    environment = {}
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        section = name.split(".")[0]
        if not equals or section not in Settings.model_fields:
            message = f"{assignment!r} is not section.name=value, for example time.window_s=10"
            raise typer.BadParameter(message)
        environment["KAPPA_" + name.replace(".", "__").upper()] = value
    return environment


def override(environment: dict[str, str]) -> None:
    """Make settings given on the command line hold for this process."""
    os.environ.update(environment)
