"""What must hold before anything is written into a history log."""

from __future__ import annotations

from collections.abc import Mapping

from apps.feed.errors import FeedError
from apps.feed.times import format_ns
from apps.log_reader import last_arrivals
from apps.settings import Settings
from apps.topics_admin import TopicsAdmin
from topics.registry import RAW_TOPICS

_NS_PER_MS = 10**6


def require_history(settings: Settings) -> None:
    """Refuse a chain that takes the broker's clock for arrival: to it, everything in a file is late.

    Raises:
        FeedError: Arrival is the broker's.
    """
    if settings.time.arrival != "history":
        message = (
            "the chain takes the broker's clock for arrival ([time] arrival = broker), so that everything in a file "
            "would be late: start the chain with `kappa up --history`"
        )
        raise FeedError(message)


def raw_partitions(settings: Settings) -> dict[str, int]:
    """Return the partitions of every raw topic.

    Raises:
        FeedError: A raw topic is absent.
        BrokerUnreachableError: No broker answers.
    """
    counts = TopicsAdmin(settings.kafka.bootstrap_servers).partition_counts()
    absent = [topic.name for topic in RAW_TOPICS if topic.name not in counts]
    if absent:
        message = (
            f"topics are absent: {', '.join(absent)}; run `kappa topics create` or start the chain with `kappa up`"
        )
        raise FeedError(message)
    return {topic.name: counts[topic.name] for topic in RAW_TOPICS}


def reached(settings: Settings, partitions: Mapping[str, int]) -> dict[tuple[str, int], int]:
    """Return the newest arrival in every raw partition that is not empty."""
    wanted = [(topic, number) for topic, count in partitions.items() for number in range(count)]
    return last_arrivals(settings.kafka.bootstrap_servers, wanted, "history")


def require_later(first_ms: int, reached_ms: Mapping[tuple[str, int], int]) -> None:
    """Refuse a feed that begins before the log's end: arrival must not go back.

    Raises:
        FeedError: A partition has reached a later arrival.
    """
    if not reached_ms:
        return
    (topic, partition), newest = max(reached_ms.items(), key=lambda item: item[1])
    if newest > first_ms:
        message = (
            f"the log has already reached {_format(newest)} (partition {partition} of {topic}), but the files begin to "
            f"arrive at {_format(first_ms)}, and arrival must not go back. Move the files behind it with "
            f"--shift-to {_format(newest + 1)}, or start from an empty log (`kappa down`, remove the data folder, "
            "`kappa up --history`). Feeds that continue one another: give --no-flush to all but the last"
        )
        raise FeedError(message)


def _format(time_ms: int) -> str:
    return format_ns(time_ms * _NS_PER_MS)
