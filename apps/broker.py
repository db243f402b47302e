"""Waiting for the broker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import structlog
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

_ANSWER_TIMEOUT_S: Final = 5.0
_PAUSE_S: Final = 2.0

log = structlog.get_logger()


def broker_answers(bootstrap_servers: str, timeout_s: float = _ANSWER_TIMEOUT_S) -> bool:
    """Return whether a broker answers a metadata request in time."""
    admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})
    try:
        return bool(admin.list_topics(timeout=timeout_s).brokers)
    except KafkaException:
        return False


def wait_for_broker(bootstrap_servers: str, wait: Callable[[float], bool]) -> None:
    """Return when the broker answers, or when `wait` says that the process is to stop.

    Args:
        bootstrap_servers: Where the broker should be.
        wait: Waits for the given seconds; returns True when the process is to stop.
    """
    while not broker_answers(bootstrap_servers):
        log.warning("waiting for the Kafka broker", bootstrap_servers=bootstrap_servers)
        if wait(_PAUSE_S):
            return
