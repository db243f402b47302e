"""What every job does besides its work: session, settings check, metrics, health, recovery, graceful stop.

A job is `run_job(name, parameters, build)`; `build` wires source -> pipeline -> sink and returns a `DataStreamWriter`.
The query is started again with growing pauses while a broker or Elasticsearch is away: its checkpoint makes that safe.
It is not started again when a newer driver has taken over, or when the settings no longer fit the checkpoint.

Exit codes: 0 stopped on request; 2 refused: settings, a taken port, newer templates; 3 fenced by a newer driver.
"""

from __future__ import annotations

import json
import os
import platform
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import structlog
from pydantic import ValidationError

from apps.broker import wait_for_broker
from apps.elasticsearch import NewerTemplatesError
from apps.logs import configure_logs
from apps.monitoring import JobMonitor, PortTakenError, serve_monitoring
from apps.settings import Settings, load_settings
from apps.spark import spark_session
from pipelines.parameters import result_settings, settings_fingerprint
from pipelines.transport import FencedError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

Report: TypeAlias = Callable[[str, float], None]
Build: TypeAlias = "Callable[[SparkSession, Settings, Report], DataStreamWriter]"

EXIT_SETTINGS_REFUSED: Final = 2
EXIT_FENCED: Final = 3
_FINAL: Final[dict[type[Exception], int]] = {FencedError: EXIT_FENCED, NewerTemplatesError: EXIT_SETTINGS_REFUSED}
_FIRST_PAUSE_S: Final = 1.0
_LONGEST_PAUSE_S: Final = 30.0
_STOP_TIMEOUT_S: Final = 60.0

log = structlog.get_logger()


class SettingsRefusedError(RuntimeError):
    """The checkpoint was made with other result settings."""


class _Stop:
    """Set once, by SIGTERM or SIGINT; waited for everywhere."""

    def __init__(self) -> None:
        self._event = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self._event.set())

    def wait(self, timeout_s: float) -> bool:
        """Wait for the request to stop; return whether it came."""
        return self._event.wait(timeout_s)

    @property
    def requested(self) -> bool:
        """Whether the request to stop has come."""
        return self._event.is_set()


def run_job(job: str, parameters: Any, build: Build, settings: Settings | None = None) -> None:
    """Run one job until it is told to stop; never returns normally but exits the process.

    Args:
        job: Name of the job; its checkpoint, port, query and metrics carry it.
        parameters: The job's settings, one of the dataclasses of `pipelines.parameters`.
        build: Returns the writer of the streaming query; called again for every restart.
        settings: Settings of the installation; read from file and environment when not given.
    """
    configure_logs(job)
    settings = settings or load_settings()
    log.info("starting", settings=settings.model_dump(mode="json", exclude={"elasticsearch": {"password", "api_key"}}))
    try:
        sys.exit(_run(job, parameters, build, settings))
    except (SettingsRefusedError, PortTakenError) as refusal:
        log.error("settings refused", reason=str(refusal))
        sys.exit(EXIT_SETTINGS_REFUSED)


def main_settings() -> Settings:
    """Read the settings of an entry point; print what is wrong with them and exit when they are refused."""
    try:
        return load_settings()
    except ValidationError as mistakes:
        for mistake in mistakes.errors():
            place = ".".join(str(part) for part in mistake["loc"]) or "settings"
            sys.stderr.write(f"{place}: {mistake['msg']}\n")
        sys.exit(EXIT_SETTINGS_REFUSED)


def _run(job: str, parameters: Any, build: Build, settings: Settings) -> int:
    checkpoint = settings.checkpoint_dir(job)
    verify_checkpoint(checkpoint, parameters)
    stop = _Stop()
    monitor = JobMonitor(job, settings.generation)
    server = serve_monitoring(settings.ports.host, getattr(settings.ports, job), monitor)
    try:
        pin_floating_point()
        wait_for_broker(settings.kafka.bootstrap_servers, stop.wait)
        if stop.requested:
            return 0
        session = spark_session(f"kappa-{job}", settings)
        session.streams.addListener(monitor.listener())
        return _run_until_stopped(_starter(job, build, session, settings, monitor, checkpoint), stop, monitor)
    finally:
        server.shutdown()


def _starter(
    job: str, build: Build, session: SparkSession, settings: Settings, monitor: JobMonitor, checkpoint: Path
) -> Callable[[], StreamingQuery]:
    def start() -> StreamingQuery:
        writer = build(session, settings, monitor.report)
        return (
            writer.queryName(job)
            .option("checkpointLocation", str(checkpoint))
            .trigger(processingTime=f"{settings.spark.trigger_interval_ms} milliseconds")
            .start()
        )

    return start


def _run_until_stopped(start: Callable[[], StreamingQuery], stop: _Stop, monitor: JobMonitor) -> int:
    pause_s = _FIRST_PAUSE_S
    while not stop.requested:
        batches_before = monitor.batches
        try:
            query = start()
            monitor.running(True)
            _await(query, stop)
        except Exception as failure:  # any failure of a query is mended by starting it again, but for the final ones
            final = _final_exit_code(failure)
            if final is not None:
                log.error("this driver stops and is not started again", reason=str(failure)[:2000])
                return final
            if stop.requested:
                log.warning(
                    "stopped in the middle of a batch; it runs again at the next start", reason=str(failure)[:400]
                )
                break
            pause_s = _FIRST_PAUSE_S if monitor.batches > batches_before else min(2 * pause_s, _LONGEST_PAUSE_S)
            log.error("query failed; starting it again", pause_s=pause_s, reason=str(failure)[:4000])
            monitor.failed()
            stop.wait(pause_s)
    log.info("stopped")
    return 0


def _await(query: StreamingQuery, stop: _Stop) -> None:
    """Wait until the query ends or is told to; let the running batch finish first."""
    while not stop.wait(0.2):
        if query.exception() is not None:
            query.awaitTermination()
        if not query.isActive:
            return
    log.info("stopping after the running batch")
    idle = threading.Event()
    for _ in range(int(_STOP_TIMEOUT_S / 0.05)):
        if not query.isActive or not query.status["isTriggerActive"]:
            break
        idle.wait(0.05)
    query.stop()


def _final_exit_code(failure: Exception) -> int | None:
    """Return the exit code of a failure that starting again cannot mend, else None.

    An error raised inside the query crosses the JVM and comes back as text, hence the look at names.
    """
    text = f"{type(failure).__name__} {failure}"
    return next((code for error, code in _FINAL.items() if error.__name__ in text), None)


def verify_checkpoint(checkpoint: Path, parameters: Any) -> None:
    """Write the result settings beside a new checkpoint, or compare them with those of an old one.

    Raises:
        SettingsRefusedError: They differ; the message names each difference and the way out.
    """
    side_file = checkpoint / "kappa-settings.json"
    wanted = json.loads(json.dumps(result_settings(parameters)))
    if side_file.exists():
        found = json.loads(side_file.read_text())["settings"]
        if found != wanted:
            raise SettingsRefusedError(_difference(checkpoint, found, wanted))
        return
    checkpoint.mkdir(parents=True, exist_ok=True)
    content = {"fingerprint": settings_fingerprint(parameters), "settings": wanted}
    partial = side_file.with_suffix(".partial")
    partial.write_text(json.dumps(content, indent=2))
    partial.replace(side_file)


def _difference(checkpoint: Path, found: dict[str, Any], wanted: dict[str, Any]) -> str:
    lines = [
        f"  {name}: the checkpoint has {found.get(name)!r}, the settings say {wanted.get(name)!r}"
        for name in sorted(found.keys() | wanted.keys())
        if found.get(name) != wanted.get(name)
    ]
    return "\n".join(
        [
            f"checkpoint {checkpoint} was made with other settings that change results:",
            *lines,
            "Put the old values back, or start a new generation (set `generation`) that reads the log again.",
        ]
    )


def pin_floating_point() -> None:
    """Make NumPy take the same code path on every machine of an architecture; call before workers start."""
    if platform.machine() == "x86_64":
        os.environ.setdefault("NPY_DISABLE_CPU_FEATURES", "X86_V3 X86_V4 AVX512_ICL AVX512_SPR")
    for library in ("OMP", "OPENBLAS", "MKL"):
        os.environ.setdefault(f"{library}_NUM_THREADS", "1")
