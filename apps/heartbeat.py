"""The arrival clock's heartbeat: every second one tick on every partition of every raw topic.

A tick carries nothing but its arrival: the broker stamps it when it appends it. So windows close although no data
come, on every partition, by the broker's clock alone. Partition counts are read again and again, so that a grown topic
gets its ticks. A tick that cannot be delivered in time is given up, not kept: the next one says more. A tick delivered
twice says the same as once.

Live chains only: in a history log the feed is the one writer of arrival, and a heartbeat beside it would declare
everything it still has to send late.

Run: `python -m apps.heartbeat`; stops cleanly on SIGTERM.
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from typing import Any, Final

import structlog
from confluent_kafka import KafkaException, Producer
from prometheus_client import CollectorRegistry, Counter, Gauge

from apps.logs import configure_logs
from apps.monitoring import serve_registry
from apps.settings import Settings, load_settings
from apps.topics_admin import BrokerUnreachableError, TopicsAdmin
from pipelines.transport import producer_config
from topics.registry import RAW_TOPICS
from topics.wire import TICK_KEY

PERIOD_S: Final = 1.0
_PARTITIONS_AGAIN_S: Final = 10.0
_ANSWER_TIMEOUT_S: Final = 3.0
_GIVE_UP_MS: Final = 10_000
#: Without an acknowledged tick for this long the process is not ready.
_READY_WITHIN_S: Final = 5.0
EXIT_REFUSED: Final = 2

log = structlog.get_logger()


class Heartbeat:
    """Sends ticks until told to stop; a broker outage only interrupts it.

    Attributes:
        registry: Its Prometheus metrics.
    """

    def __init__(self, bootstrap_servers: str) -> None:
        self._topics = TopicsAdmin(bootstrap_servers, timeout_s=_ANSWER_TIMEOUT_S)
        self._partitions: dict[str, int] = {}
        self._partitions_read_at = -_PARTITIONS_AGAIN_S
        self._acknowledged_at: dict[tuple[str, int], float] = {}
        own = {
            "delivery.timeout.ms": _GIVE_UP_MS,
            "enable.idempotence": False,
            "linger.ms": 0,
            "topic.metadata.refresh.interval.ms": int(_PARTITIONS_AGAIN_S * 1000),
            "log_level": 0,
        }
        self._producer = Producer(producer_config(bootstrap_servers) | own)
        self.registry = CollectorRegistry()
        self._ticks = Counter("kappa_ticks", "Ticks acknowledged by the broker.", ["topic"], registry=self.registry)
        self._failed = Counter("kappa_ticks_failed", "Ticks given up.", ["topic"], registry=self.registry)
        self._known = Gauge("kappa_tick_partitions", "Partitions ticked.", ["topic"], registry=self.registry)

    def run(self, stop: threading.Event) -> None:
        """Send one tick per partition and second until `stop` is set, then wait for what is on its way."""
        due = time.monotonic()
        while not stop.is_set():
            self.beat()
            due = max(due + PERIOD_S, time.monotonic())
            while not stop.is_set() and (left := due - time.monotonic()) > 0:
                self._producer.poll(min(left, 0.2))
        self._producer.flush(_GIVE_UP_MS / 1000)

    def beat(self) -> None:
        """Send one tick to every known partition."""
        self._read_partitions()
        for topic, count in self._partitions.items():
            for partition in range(count):
                self._send(topic, partition)

    @property
    def ready(self) -> bool:
        """Whether every partition of every raw topic had a tick acknowledged lately."""
        now = time.monotonic()
        wanted = [(topic, number) for topic, count in self._partitions.items() for number in range(count)]
        return len(self._partitions) == len(RAW_TOPICS) and all(
            now - self._acknowledged_at.get(partition, -_READY_WITHIN_S) < _READY_WITHIN_S for partition in wanted
        )

    def _read_partitions(self) -> None:
        complete = len(self._partitions) == len(RAW_TOPICS)
        if complete and time.monotonic() - self._partitions_read_at < _PARTITIONS_AGAIN_S:
            return
        self._partitions_read_at = time.monotonic()
        try:
            counts = self._topics.partition_counts()
        except BrokerUnreachableError as failure:
            log.warning("broker unreachable, trying again", reason=str(failure))
            return
        absent = [topic.name for topic in RAW_TOPICS if topic.name not in counts]
        if absent:
            log.warning("waiting for topics: run `kappa topics create`", absent=absent)
        # A topic without a leader for the moment keeps its partitions.
        self._partitions |= {topic.name: counts[topic.name] for topic in RAW_TOPICS if topic.name in counts}
        for name, count in self._partitions.items():
            self._known.labels(topic=name).set(count)

    def _send(self, topic: str, partition: int) -> None:
        try:
            self._producer.produce(topic, value=b"", key=TICK_KEY, partition=partition, on_delivery=self._delivered)
        except (BufferError, KafkaException):
            # The queue is full of ticks of an outage, or the client has not heard of a new partition yet.
            self._failed.labels(topic=topic).inc()

    def _delivered(self, error: Any, message: Any) -> None:
        if error is not None:
            self._failed.labels(topic=message.topic()).inc()
            return
        self._ticks.labels(topic=message.topic()).inc()
        self._acknowledged_at[message.topic(), message.partition()] = time.monotonic()


def run_heartbeat(settings: Settings) -> int:
    """Run until SIGTERM or SIGINT; return the exit code."""
    configure_logs("heartbeat")
    if settings.time.arrival == "history":
        log.error("refused: [time] arrival is history, whose one writer sends its own ticks; run without a heartbeat")
        return EXIT_REFUSED
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    heartbeat = Heartbeat(settings.kafka.bootstrap_servers)
    server = serve_registry(settings.ports.host, settings.ports.heartbeat, heartbeat.registry, lambda: heartbeat.ready)
    log.info("ticking", bootstrap_servers=settings.kafka.bootstrap_servers, port=settings.ports.heartbeat)
    heartbeat.run(stop)
    server.shutdown()
    log.info("stopped")
    return 0


if __name__ == "__main__":
    sys.exit(run_heartbeat(load_settings()))
