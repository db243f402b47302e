"""Records of a topic made readable: where they lie, when they were appended, key, headers, JSON."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final, Literal

import orjson
from rich.console import Group
from rich.json import JSON
from rich.text import Text

from apps.feed.times import format_ns, parse_time_ns
from apps.log_reader import LogReader, LogRecord, Partition
from apps.settings import Settings
from apps.topics_admin import TopicsAdmin
from topics.registry import TOPICS

_NS_PER_MS: Final = 10**6
_SHOWN_BYTES: Final = 200

#: Where to begin: the newest records, the oldest, an offset, or a time in nanoseconds.
Start = tuple[Literal["latest", "beginning", "offset", "time"], int]


def parse_start(text: str) -> Start:
    """Return where a user wants to begin.

    Raises:
        ValueError: The text says none of the ways.
    """
    if text == "latest":
        return "latest", 0
    if text == "beginning":
        return "beginning", 0
    if text.isdigit():
        return "offset", int(text)
    return "time", parse_time_ns(text)


def full_name(name: str, settings: Settings) -> str:
    """Return the broker's name of a topic of the registry; any other name is taken as it is."""
    known = {topic.name: topic.full_name(settings.generation) for topic in TOPICS}
    return known.get(name, name)


def watch(
    bootstrap_servers: str, name: str, start: Start, limit: int, *, follow: bool = False, ticks: bool = False
) -> Iterator[LogRecord]:
    """Yield up to `limit` records of a topic from a start on, by append time; when following, all that come later too.

    Raises:
        ValueError: There is no such topic.
        BrokerUnreachableError: No broker answers.
    """
    counts = TopicsAdmin(bootstrap_servers).partition_counts()
    if name not in counts:
        message = f"no topic {name}; there are: {', '.join(sorted(counts))}"
        raise ValueError(message)
    partitions = [(name, number) for number in range(counts[name])]
    with LogReader(bootstrap_servers) as reader:
        ends = {partition: reader.bounds(partition)[1] for partition in partitions}
        if start[0] == "latest":
            yield from _latest(reader, partitions, limit, ticks=ticks)
        else:
            wanted = (item for item in reader.read(_starts(reader, partitions, start)) if ticks or not item.is_tick)
            yield from islice(wanted, limit)
        if follow:
            yield from (item for item in reader.follow(ends) if ticks or not item.is_tick)


def _latest(reader: LogReader, partitions: list[Partition], limit: int, *, ticks: bool) -> list[LogRecord]:
    found = [item for partition in partitions for item in reader.latest(partition, limit, ticks=ticks)]
    return sorted(found, key=lambda item: (item.timestamp_ms, item.partition, item.offset))[-limit:]


def _starts(reader: LogReader, partitions: list[Partition], start: Start) -> dict[Partition, int]:
    how, number = start
    if how == "time":
        return reader.offsets_at(partitions, number // _NS_PER_MS)
    return {partition: max(number, reader.bounds(partition)[0]) for partition in partitions}


def render(record: LogRecord) -> Group:
    """Return a record for the terminal."""
    head = Text(f"{record.topic}[{record.partition}] @ {record.offset}  ", style="cyan")
    head.append(format_ns(record.timestamp_ms * _NS_PER_MS), style="green")
    lines = [head, Text(f"  key      {_readable(record.key)}")]
    lines += [Text(f"  {name} = {_readable(value)}", style="dim") for name, value in record.headers]
    return Group(*lines, _value(record.value))


def _value(value: bytes | None) -> JSON | Text:
    if not value:
        return Text("  empty" if value == b"" else "  no value", style="dim")
    try:
        return JSON(orjson.dumps(orjson.loads(value)).decode(), indent=2)
    except ValueError:
        return Text(f"  {len(value):,} bytes: {value[:_SHOWN_BYTES]!r}")


def _readable(value: bytes | None) -> str:
    if value is None:
        return "none"
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.hex()
