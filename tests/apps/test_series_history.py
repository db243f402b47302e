"""The scores of one resource, read back from the topic."""

from __future__ import annotations

import dataclasses

import orjson
import pytest
from rich.console import Console
from typer.testing import CliRunner

from apps.cli import app
from apps.series_history import (
    NoScoresError,
    interval,
    last_scores,
    parse_score,
    series_table,
    series_windows,
    windows_table,
)
from apps.settings import KafkaSettings, Settings
from apps.topics_admin import BrokerUnreachableError, ensure_topics
from pipelines.transport import TaskProducer
from tests.support import environment_of, free_port
from tests.topics.examples import score, series_score
from topics.records import Score
from topics.registry import SCORES


def write(settings: Settings, *records: Score) -> None:
    with TaskProducer(settings.kafka.bootstrap_servers) as producer:
        for record in records:
            topic = SCORES.full_name(settings.generation)
            producer.send(topic, orjson.dumps(record), key=record.resource.encode())


def text_of(table: object) -> str:
    console = Console(width=140)
    with console.capture() as captured:
        console.print(table)
    return captured.get()


def test_parsing_gives_the_record_back() -> None:
    assert parse_score(orjson.dumps(score())) == score()


def test_a_series_is_found_by_metric_or_by_label() -> None:
    scores = [score(window=0), score(window=1)]
    assert len(series_windows(scores, "system.cpu.utilization")) == 4
    found = series_windows(scores, "system.cpu.utilization{cpu=1}")
    assert [(item.window_end_ms, item.score.attributes) for item in found] == [
        (scores[0].window_end_ms, {"cpu": "1"}),
        (scores[1].window_end_ms, {"cpu": "1"}),
    ]
    assert series_windows(scores, "system.cpu") == []


def test_tables_show_values_beside_their_expectation() -> None:
    unknown = series_score(0.0, cpu=7, expected=None, lower=None, upper=None, actual=12345.678)
    table = text_of(windows_table(series_windows([score(series=[series_score(), unknown])], unknown.metric), "vm-0001"))
    assert "11-21 02:01:00" in table
    assert "0.3 … 0.5" in table
    assert "12,346" in table
    assert interval(unknown) == ""
    listing = text_of(series_table([score(value=20.0), score(window=1, value=80.0), score(window=2)], "vm-0001"))
    assert "system.cpu.utilization{cpu=1}" in listing
    assert "80.0" in listing


def test_no_broker() -> None:
    settings = Settings(kafka=KafkaSettings(bootstrap_servers=f"127.0.0.1:{free_port()}"))
    with pytest.raises(BrokerUnreachableError, match="no broker answers"):
        last_scores(settings, "vm-0001", 1)


@pytest.mark.stack
def test_last_windows_of_a_resource_each_once(local_settings: Settings, kafka: str) -> None:
    settings = local_settings.model_copy(
        update={"generation": "series-history", "kafka": KafkaSettings(bootstrap_servers=kafka)}
    )
    with pytest.raises(NoScoresError, match="there is no topic"):
        last_scores(settings, "vm-1", 1)
    ensure_topics(settings)
    # the resource's older windows lie further back than the first look reaches
    write(settings, *(score("vm-1", window) for window in range(4)))
    for number in range(2, 9):  # other resources, in both partitions
        write(settings, *(score(f"vm-{number}", window, series=[]) for window in range(1_000)))
    write(settings, score("vm-1", 4), score("vm-1", 4), score("vm-1", 3))  # a retried batch

    found = last_scores(settings, "vm-1", 3)
    assert found == [score("vm-1", window) for window in (2, 3, 4)]
    assert len(last_scores(settings, "vm-1", 100)) == 5
    with pytest.raises(NoScoresError, match="no scores of resource 'vm-99'"):
        last_scores(settings, "vm-99", 1)

    runner, environment = CliRunner(), environment_of(settings)
    shown = runner.invoke(
        app, ["series", "vm-1", "system.cpu.utilization{cpu=0}", "--last", "2", "--json"], env=environment
    )
    lines = [orjson.loads(line) for line in shown.stdout.splitlines()]
    assert [line["window_end_ms"] for line in lines] == [found[1].window_end_ms, found[2].window_end_ms]
    assert lines[0]["score"] == dataclasses.asdict(series_score())
    missing = runner.invoke(app, ["series", "vm-1", "system.memory"], env=environment)
    assert missing.exit_code == 1
    assert "has no series 'system.memory'" in missing.stderr
