"""Prometheus metrics and health of one job, fed by the query's own progress reports.

`/metrics` Prometheus text; `/healthz` 200 while the process works; `/readyz` 200 while the query runs.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CollectorRegistry, Counter, Gauge, make_wsgi_app

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import StreamingQueryListener

_GAUGES: Final = {
    "batch_id": "Last finished micro-batch.",
    "batch_duration_seconds": "Duration of the last micro-batch.",
    "input_rows": "Rows read by the last micro-batch.",
    "input_rows_per_second": "Rows read per second of processing.",
    "lag_records": "Records in the source topics not yet read.",
    "watermark_seconds": "Event time up to which windows are closed, seconds since the epoch.",
    "state_rows": "Rows in the state store.",
    "state_bytes": "Memory used by the state store.",
    "running": "1 while the query runs.",
    "inexact": "1 when rows were dropped by the watermark: results are not exact.",
}
_COUNTERS: Final = {
    "batches": "Finished micro-batches.",
    "failures": "Failures of the query after which it was started again.",
    "watermark_dropped_rows": "Rows dropped by the watermark; must stay 0.",
}

StartResponse = Callable[[str, list[tuple[str, str]]], Any]
WsgiApp = Callable[[dict[str, Any], StartResponse], Iterable[bytes]]


class PortTakenError(RuntimeError):
    """Another process listens on the port for metrics and health."""


class JobMonitor:
    """Metrics of one job.

    Attributes:
        batches: Micro-batches finished in this process.
    """

    def __init__(self, job: str, generation: str) -> None:
        self.registry = CollectorRegistry()
        self.batches = 0
        self._labels = {"job": job, "generation": generation}
        self._lock = threading.Lock()
        self._gauges = {name: self._gauge(name, text) for name, text in _GAUGES.items()}
        self._counters = {name: self._counter(name, text) for name, text in _COUNTERS.items()}

    def _gauge(self, name: str, text: str) -> Gauge:
        return Gauge(f"kappa_{name}", text, list(self._labels), registry=self.registry).labels(**self._labels)

    def _counter(self, name: str, text: str) -> Counter:
        return Counter(f"kappa_{name}", text, list(self._labels), registry=self.registry).labels(**self._labels)

    def report(self, name: str, value: float) -> None:
        """Add to the counter `kappa_<name>_total`, creating it at first use."""
        with self._lock:
            if name not in self._counters:
                self._counters[name] = self._counter(name, f"{name.replace('_', ' ').capitalize()} of this job.")
            self._counters[name].inc(value)

    def running(self, state: bool) -> None:
        """Say whether the query runs."""
        self._gauges["running"].set(float(state))

    def failed(self) -> None:
        """Count one failure of the query."""
        self.running(False)
        self._counters["failures"].inc()

    @property
    def ready(self) -> bool:
        """Whether the query runs."""
        return bool(self._gauges["running"]._value.get())

    def listener(self) -> StreamingQueryListener:
        """Return the listener that turns progress reports into metrics."""
        from pyspark.sql.streaming.listener import StreamingQueryListener  # noqa: PLC0415

        monitor = self

        class ProgressListener(StreamingQueryListener):
            def onQueryStarted(self, event: Any) -> None:  # noqa: N802
                monitor.running(True)

            def onQueryProgress(self, event: Any) -> None:  # noqa: N802
                monitor.progressed(json.loads(event.progress.json))

            def onQueryIdle(self, event: Any) -> None:  # noqa: N802
                pass

            def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
                monitor.running(False)

        return ProgressListener()

    def progressed(self, progress: dict[str, Any]) -> None:
        """Take over one progress report, the parsed JSON of Spark's `StreamingQueryProgress`."""
        self.batches += 1
        self._counters["batches"].inc()
        gauges = self._gauges
        gauges["batch_id"].set(progress["batchId"])
        gauges["batch_duration_seconds"].set(progress.get("durationMs", {}).get("triggerExecution", 0) / 1000)
        gauges["input_rows"].set(progress.get("numInputRows", 0))
        gauges["input_rows_per_second"].set(progress.get("processedRowsPerSecond") or 0)
        gauges["lag_records"].set(sum(_lag(source) for source in progress.get("sources", [])))
        operators = progress.get("stateOperators", [])
        gauges["state_rows"].set(sum(operator.get("numRowsTotal", 0) for operator in operators))
        gauges["state_bytes"].set(sum(operator.get("memoryUsedBytes", 0) for operator in operators))
        watermark = progress.get("eventTime", {}).get("watermark")
        if watermark:
            gauges["watermark_seconds"].set(datetime.fromisoformat(watermark).timestamp())
        self._count_dropped(sum(operator.get("numRowsDroppedByWatermark", 0) for operator in operators))

    def _count_dropped(self, rows: int) -> None:
        if rows:
            self._counters["watermark_dropped_rows"].inc(rows)
            self._gauges["inexact"].set(1)


def _lag(source: dict[str, Any]) -> float:
    """Return records between the end of the batch and the end of the topic, for a Kafka source."""
    end, latest = source.get("endOffset"), source.get("latestOffset")
    if not isinstance(end, dict) or not isinstance(latest, dict):
        return 0.0
    return float(
        sum(
            max(0, offset - end.get(topic, {}).get(partition, 0))
            for topic, partitions in latest.items()
            for partition, offset in partitions.items()
        )
    )


class _QuietHandler(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Do not log each scrape."""


def monitoring_app(registry: CollectorRegistry, ready: Callable[[], bool]) -> WsgiApp:
    """Return the WSGI application with `/metrics`, `/healthz` and `/readyz`."""
    metrics: WsgiApp = make_wsgi_app(registry)

    def answer(environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        path = environ.get("PATH_INFO", "")
        if path == "/metrics":
            return metrics(environ, start_response)
        healthy = path == "/healthz" or (path == "/readyz" and ready())
        status = "200 OK" if healthy else "503 Service Unavailable" if path == "/readyz" else "404 Not Found"
        start_response(status, [("Content-Type", "text/plain; charset=utf-8")])
        return [status.encode() + b"\n"]

    return answer


def serve_monitoring(host: str, port: int, monitor: JobMonitor) -> WSGIServer:
    """Serve metrics and health in a thread; `shutdown()` of the returned server ends it.

    Raises:
        PortTakenError: The port cannot be had; the message names the setting that changes it.
    """
    return serve_registry(host, port, monitor.registry, lambda: monitor.ready)


def serve_registry(host: str, port: int, registry: CollectorRegistry, ready: Callable[[], bool]) -> WSGIServer:
    """Serve any registry, for processes without a query."""
    try:
        server = make_server(host, port, monitoring_app(registry, ready), handler_class=_QuietHandler)
    except OSError as taken:
        message = f"cannot serve metrics on {host}:{port} ({taken.strerror}): set another port in [ports]"
        raise PortTakenError(message) from taken
    threading.Thread(target=server.serve_forever, name="monitoring", daemon=True).start()
    return server
