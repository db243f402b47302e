"""What tests need beside fixtures: free ports, job processes."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from apps.local.kafka import KafkaServer
from apps.local.processes import stop
from apps.settings import JobPorts, Settings

SERVER_START_S = 120.0
STOP_S = 30.0


def free_port() -> int:
    """Return a port nobody listens on, below the range the kernel gives to outgoing connections."""
    for port in random.sample(range(20_000, 30_000), 200):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    message = "no free port between 20000 and 30000"
    raise RuntimeError(message)


def free_job_ports() -> JobPorts:
    """Return ports for the jobs that nobody listens on."""
    return JobPorts(**{job: free_port() for job in ("statistics", "novelty", "incidents", "indexer", "heartbeat")})


@contextlib.contextmanager
def running_broker(folder: Path) -> Iterator[str]:
    """Run a real broker with fresh data; yield its bootstrap servers."""
    server = KafkaServer(folder / "data", folder / "kafka.log", free_port(), free_port())
    record = server.start()
    try:
        server.wait(record, SERVER_START_S)
        yield server.bootstrap_servers
    finally:
        stop([record], STOP_S)


def environment_of(settings: Settings) -> dict[str, str]:
    """Return the environment variables that make a process read exactly these settings."""
    sections = settings.model_dump(mode="json", exclude_defaults=True)
    return {
        f"KAPPA_{name.upper()}": value if isinstance(value, str) else json.dumps(value)
        for name, value in sections.items()
    }


@dataclass
class Job:
    """A running job process, `python -m apps.<name>`."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path

    def stop(self, timeout_s: float = 90.0) -> int:
        """Ask the job to stop after its batch; return its exit code."""
        self.process.terminate()
        try:
            return self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise

    def kill(self) -> None:
        """Kill the job and everything it started, at once: the crash of a machine."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(STOP_S)

    @property
    def log_text(self) -> str:
        return self.log.read_text(errors="replace")


@dataclass
class JobRunner:
    """Starts job processes for one test and ends them with it."""

    folder: Path
    started: list[Job] = field(default_factory=list)

    def __call__(self, name: str, settings: Settings, environment: Mapping[str, str] | None = None) -> Job:
        log = self.folder / f"{name}-{len(self.started)}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", f"apps.{name}"],
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **environment_of(settings), **(environment or {})},
                start_new_session=True,
            )
        job = Job(name, process, log)
        self.started.append(job)
        return job
