"""Control records in the log: sending them, and reading back what holds.

Control records are raw records like any other: they take effect at the marker of the window of their arrival, in any
replay. In history mode they carry their arrival in a header, and arrival must not go back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import orjson

from apps.feed.errors import FeedError
from apps.feed.guard import raw_partitions, reached
from apps.feed.times import format_ns, parse_time_ns
from apps.log_reader import LogReader
from apps.settings import Settings
from pipelines.transport import TaskProducer
from topics.controls import Control, Rule, RuleRemoval, control_of
from topics.records import Inventory, OperatorVerdict
from topics.registry import CONTROL
from topics.wire import ARRIVAL_HEADER

_NS_PER_MS: Final = 10**6
_PARTITION: Final = (CONTROL.name, 0)


def send_controls(settings: Settings, controls: Sequence[Control], at_ns: int | None = None) -> int | None:
    """Write control records; return their arrival in milliseconds in history mode, else None.

    Args:
        settings: Settings of the running chain.
        controls: What to write, in this order.
        at_ns: Arrival in history mode; None takes the newest arrival the log has reached.

    Raises:
        FeedError: The log's clock is already past `at_ns`; or it is empty and `at_ns` is None.
        BrokerUnreachableError: No broker answers.
    """
    arrival_ms = _arrival_ms(settings, at_ns)
    headers = None if arrival_ms is None else {ARRIVAL_HEADER: b"%d" % arrival_ms}
    with TaskProducer(settings.kafka.bootstrap_servers) as producer:
        for control in controls:
            producer.send(CONTROL.name, orjson.dumps(control), key=key_of(control).encode(), headers=headers)
    return arrival_ms


def key_of(control: Control) -> str:
    """Return the record key: the resource, the rule or the incident."""
    match control:
        case Inventory():
            return control.resource
        case OperatorVerdict():
            return control.incident or control.subjects[0].resource
        case _:
            return control.id


def arrival_text(arrival_ms: int | None) -> str:
    """Return when control records take effect, in words; empty where it is now."""
    return "" if arrival_ms is None else f", arriving at {format_ns(arrival_ms * _NS_PER_MS)}"


def arrival_ns(at: str | None) -> int | None:
    """Return an option `--at` in nanoseconds.

    Raises:
        FeedError: It is not a time.
    """
    try:
        return None if at is None else parse_time_ns(at)
    except ValueError as mistake:
        message = f"--at: {mistake}"
        raise FeedError(message) from mistake


def read_controls(settings: Settings) -> Iterator[Control]:
    """Yield the control records of the log, in order; what the chain would reject is left out.

    Raises:
        FeedError: The topic is absent.
        BrokerUnreachableError: No broker answers.
    """
    raw_partitions(settings)
    with LogReader(settings.kafka.bootstrap_servers) as reader:
        low, high = reader.bounds(_PARTITION)
        for record in reader.stretch(_PARTITION, low, high):
            if not record.is_tick:
                yield from _understood(record.value or b"")


def _understood(value: bytes) -> Iterator[Control]:
    try:
        yield control_of(orjson.loads(value))
    except (ValueError, KeyError, TypeError, AttributeError):
        return


def rules_in_effect(controls: Iterable[Control]) -> tuple[Rule, ...]:
    """Return the rules that hold after all control records, in order of their ids."""
    rules: dict[str, Rule] = {}
    for control in controls:
        if isinstance(control, Rule):
            rules[control.id] = control
        elif isinstance(control, RuleRemoval):
            rules.pop(control.id, None)
    return tuple(rules[name] for name in sorted(rules))


def _arrival_ms(settings: Settings, at_ns: int | None) -> int | None:
    partitions = raw_partitions(settings)
    if settings.time.arrival != "history":
        if at_ns is not None:
            message = "--at is for history mode; a live chain takes the moment the broker receives the records"
            raise FeedError(message)
        return None
    newest = max(reached(settings, partitions).values(), default=None)
    if at_ns is None and newest is None:
        message = (
            "the history log is empty, so say when the control records arrive with --at, before the first point of the "
            "feed"
        )
        raise FeedError(message)
    wanted = newest if at_ns is None else at_ns // _NS_PER_MS
    if newest is not None and wanted is not None and wanted < newest:
        message = f"the log has already reached {format_ns(newest * _NS_PER_MS)}: give a later time with --at, or none"
        raise FeedError(message)
    return wanted
