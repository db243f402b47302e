"""What the chain said about one resource lately, read from the topic of scores."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import orjson
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from rich import box
from rich.markup import escape
from rich.table import Column, Table

from apps.incident_view import time_text
from apps.log_reader import LogReader, LogRecord, Partition
from apps.settings import Settings
from apps.topics_admin import BrokerUnreachableError
from topics.documents import series_label
from topics.records import Score, SeriesScore
from topics.registry import SCORES

_FIRST_LOOK_BACK: Final = 2_000
_TIMEOUT_S: Final = 5.0


class NoScoresError(RuntimeError):
    """There are no scores to show; the message says why."""


@dataclass(frozen=True)
class SeriesWindow:
    """One series in one window; `window_end_ms` is event time."""

    window_start_ms: int
    window_end_ms: int
    score: SeriesScore

    @property
    def label(self) -> str:
        """Name of the series within its resource."""
        return series_label(self.score.metric, self.score.attributes)


def last_scores(settings: Settings, resource: str, windows: int) -> list[Score]:
    """Return the last scores of a resource, oldest first, each window once.

    Raises:
        BrokerUnreachableError: No broker answers.
        NoScoresError: The topic or the resource has none.
    """
    topic = SCORES.full_name(settings.generation)
    partitions = _partitions(settings.kafka.bootstrap_servers, topic)
    with LogReader(settings.kafka.bootstrap_servers) as reader:
        found = _search_back(reader, partitions, resource.encode(), windows)
    if not found:
        message = f"no scores of resource {resource!r} in {topic}: check the name, or wait for its first closed window"
        raise NoScoresError(message)
    return found


def _partitions(bootstrap_servers: str, topic: str) -> list[Partition]:
    admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})
    try:
        known = admin.list_topics(timeout=_TIMEOUT_S).topics
    except KafkaException as failure:
        message = f"no broker answers at {bootstrap_servers}: is it running? (`kappa up` starts one here)"
        raise BrokerUnreachableError(message) from failure
    if topic not in known:
        message = f"there is no topic {topic}: start the chain (`kappa up`), or set `generation` to one that exists"
        raise NoScoresError(message)
    return [(topic, number) for number in sorted(known[topic].partitions)]


def _search_back(reader: LogReader, partitions: list[Partition], key: bytes, windows: int) -> list[Score]:
    """Read ever longer ends of the partitions until there are enough windows or no more records."""
    bounds = {partition: reader.bounds(partition) for partition in partitions}
    back = _FIRST_LOOK_BACK
    while True:
        starts = {partition: max(low, high - back) for partition, (low, high) in bounds.items()}
        records = [record for record in reader.read(starts) if record.key == key and record.value]
        scores = _each_window_once(records)
        if len(scores) >= windows or all(starts[partition] == low for partition, (low, _) in bounds.items()):
            return scores[-windows:]
        if records:  # a resource's records lie in one partition
            home = (records[0].topic, records[0].partition)
            bounds = {home: bounds[home]}
        back *= 4


def _each_window_once(records: Iterable[LogRecord]) -> list[Score]:
    """Parse records; a retried batch writes equal ones again."""
    parsed = [parse_score(record.value) for record in records if record.value]
    by_window = {score.window_end_ms: score for score in parsed}
    return [by_window[end_ms] for end_ms in sorted(by_window)]


def parse_score(value: bytes) -> Score:
    """Return the score record of a message value."""
    content = orjson.loads(value)
    series = [SeriesScore(**item) for item in content.pop("series")]
    return Score(**content, series=series)


def series_windows(scores: Iterable[Score], metric: str) -> list[SeriesWindow]:
    """Return the windows of the series with a metric name, or with a label such as `log.severity{severity=ERROR}`."""
    return [
        SeriesWindow(score.window_start_ms, score.window_end_ms, series)
        for score in scores
        for series in score.series
        if metric in (series.metric, series_label(series.metric, series.attributes))
    ]


# ---- tables ----------------------------------------------------------------------------------------------------------


def windows_table(windows: Iterable[SeriesWindow], title: str) -> Table:
    """Return actual and expected values of windows, with the 99 % interval."""
    head = ("window end (UTC)", _name_column(), "actual", "expected", "99 % interval", "score", "")
    table = Table(*head, title=escape(title), box=box.SIMPLE, padding=(0, 1, 0, 0))
    for window in windows:
        score = window.score
        table.add_row(
            time_text(window.window_end_ms),
            escape(window.label),
            number(score.actual),
            number(score.expected),
            interval(score),
            f"{score.score:.1f}",
            score.direction,
        )
    return table


def series_table(scores: list[Score], title: str) -> Table:
    """Return the series of a resource, each with its last window and its highest score."""
    head = (_name_column(), "kind", "unit", "last actual", "expected", "last score", "highest score", "windows")
    table = Table(*head, title=escape(title), box=box.SIMPLE, padding=(0, 1, 0, 0))
    by_label: dict[str, list[SeriesScore]] = {}
    for score in scores:
        for series in score.series:
            by_label.setdefault(series_label(series.metric, series.attributes), []).append(series)
    for label, history in sorted(by_label.items()):
        last = history[-1]
        highest = max(item.score for item in history)
        values = (number(last.actual), number(last.expected), f"{last.score:.1f}", f"{highest:.1f}", str(len(history)))
        table.add_row(escape(label), last.kind, escape(last.unit), *values)
    return table


def _name_column() -> Column:
    """Return a column that breaks long names instead of cutting them: their ends are what tells series apart."""
    return Column("series", overflow="fold", min_width=24)


def interval(score: SeriesScore) -> str:
    """Return the 99 % predictive interval as text, empty while nothing is known."""
    return "" if score.lower is None or score.upper is None else f"{number(score.lower)} … {number(score.upper)}"


def number(value: float | None) -> str:
    """Return a value to five significant digits; empty for None."""
    return "" if value is None else f"{value:,.5g}"
