"""Incident documents as people read them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import orjson
import pytest
from rich.console import Console
from typer.testing import CliRunner

from apps.cli import app
from apps.elasticsearch import TemplateKeeper, connect
from apps.incident_view import incident_table, resources_text, since_ms
from apps.settings import ElasticsearchSettings, Settings
from tests.support import environment_of
from tests.topics.examples import START_MS, incident
from topics.documents import INCIDENTS, IndexSettings

NOW_MS = START_MS + 3_600_000


def text_of(*incidents: Any) -> str:
    console = Console(width=160)
    documents = [INCIDENTS.source(orjson.loads(orjson.dumps(item))) for item in incidents]
    with console.capture() as captured:
        console.print(incident_table(documents))
    return captured.get()


@pytest.mark.parametrize(
    ("text", "expected_ms"),
    [
        ("2h", NOW_MS - 7_200_000),
        ("0", NOW_MS),
        ("2025-11-21T02:00Z", START_MS),
        ("2025-11-21T02:00", START_MS),
        ("2025-11-21T03:00+01:00", START_MS),
        ("2025-11-21", START_MS - 7_200_000),
    ],
)
def test_since(text: str, expected_ms: int) -> None:
    assert since_ms(text, NOW_MS) == expected_ms


def test_since_what() -> None:
    with pytest.raises(ValueError, match="is no duration"):
        since_ms("yesterday", NOW_MS)


def test_an_open_incident() -> None:
    line = text_of(incident(2))
    for part in ("i-1", "11-21 02:00:00", "open", "major 62", "service", "vm-0001, vm-0002", "was 0.9, expected 0.4"):
        assert part in line


def test_a_closed_incident_shows_its_end_and_text_is_not_markup() -> None:
    line = text_of(incident(3, state="close", end_ms=START_MS + 125_000, explanation="disk [sda1] is full"))
    assert "11-21 02:02:05" in line
    assert "open" not in line
    assert "disk [sda1] is full" in line


def test_an_incident_without_resources_or_place_is_shown() -> None:
    assert "cloud" in text_of(incident(scope="cloud", resources=[], contributors=[], service=None, region=None))


def test_many_resources_are_counted() -> None:
    assert resources_text([f"vm-{number}" for number in range(5)]) == "vm-0, vm-1, vm-2 and 2 more"


@pytest.fixture
def indexed(local_settings: Settings, elasticsearch: str) -> Settings:
    """Settings of an Elasticsearch that holds one open incident."""
    settings = local_settings.model_copy(
        update={"generation": "incident-view", "elasticsearch": ElasticsearchSettings(url=elasticsearch)}
    )
    row = orjson.loads(orjson.dumps(incident(1)))
    client = connect(settings.elasticsearch)
    TemplateKeeper(client, settings.generation, IndexSettings()).prepare()
    index = INCIDENTS.index(row, settings.generation, "month")
    client.index(index=index, id=INCIDENTS.document_id(row), document=INCIDENTS.source(row), refresh=True)
    client.close()
    return settings


@pytest.mark.stack
def test_the_command_prints_documents_or_a_table(indexed: Settings) -> None:
    runner, environment = CliRunner(), environment_of(indexed)
    as_json = runner.invoke(app, ["incidents", "--json"], env=environment)
    assert [orjson.loads(line)["incident"]["id"] for line in as_json.stdout.splitlines()] == ["i-1"]
    assert "major" in runner.invoke(app, ["incidents", "--open", "--since", "2025-11-21"], env=environment).stdout
    assert runner.invoke(app, ["incidents", "--since", "2100-01-01"], env=environment).stdout == "no incidents\n"
    wrong = runner.invoke(app, ["incidents", "--since", "yesterday"], env=environment)
    assert wrong.exit_code == 1
    assert "is no duration" in wrong.stderr


@pytest.mark.stack
def test_watching_goes_on_until_it_is_interrupted(indexed: Settings, tmp_path: Path) -> None:
    output = tmp_path / "output"
    with output.open("wb") as target:
        watching = subprocess.Popen(
            [sys.executable, "-m", "apps.cli", "incidents", "--watch"],
            env={**os.environ, **environment_of(indexed), "COLUMNS": "160", "FORCE_COLOR": "1"},
            stdout=target,
            stderr=subprocess.STDOUT,
        )
        deadline = time.monotonic() + 60
        while b"vm-0001" not in output.read_bytes() and time.monotonic() < deadline:
            time.sleep(0.2)
        assert watching.poll() is None
        watching.send_signal(signal.SIGINT)
        assert watching.wait(20) == 0
    assert b"was 0.9, expected 0.4" in output.read_bytes()
