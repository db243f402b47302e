"""The local stack as a whole: Kafka, Elasticsearch and the jobs, started, stopped and looked at.

What runs stands in `<data_dir>/stack.json`: each process with pid and create time, and the settings it was started
with. Nothing watches the processes: a job mends its own query, and `kappa up` starts again what has ended.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final, Literal

from apps.broker import broker_answers
from apps.local import preflight
from apps.local.artifacts import ArtifactStore
from apps.local.elasticsearch import ElasticsearchServer, answers
from apps.local.errors import LocalStackError
from apps.local.jobs import CHAIN, JOBS, JobProgress, is_ready, job_environment, progress, start_job
from apps.local.kafka import KafkaServer
from apps.local.processes import ProcessRecord, stop, wait_until_ready
from apps.settings import STACK_FILE, Settings
from apps.topics_admin import ensure_topics

KAFKA: Final = "kafka"
ELASTICSEARCH: Final = "elasticsearch"
SERVERS: Final = (KAFKA, ELASTICSEARCH)

#: Never written to disk.
_SECRETS: Final = ("KAPPA_ELASTICSEARCH__PASSWORD", "KAPPA_ELASTICSEARCH__API_KEY", "KAPPA_ELASTICSEARCH")
#: Folders of the data folder that `wipe` removes; anything else there belongs to somebody else.
_DATA: Final = (KAFKA, ELASTICSEARCH, "checkpoints", "scratch", "logs")

State = Literal["ready", "starting", "ended", "off"]
Tell = Callable[[str], None]


@dataclass(frozen=True)
class StackFile:
    """Content of `stack.json`.

    Attributes:
        environment: Settings the stack was started with, as environment variables.
        processes: What was started, in this order.
    """

    environment: dict[str, str] = field(default_factory=dict)
    processes: tuple[ProcessRecord, ...] = ()

    @classmethod
    def read(cls, path: Path) -> StackFile | None:
        """Return the content of a stack file, or None if there is none."""
        try:
            content = json.loads(path.read_bytes())
            records = tuple(ProcessRecord(**record) for record in content["processes"])
            return cls(dict(content["environment"]), records)
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError) as broken:
            message = f"{path} cannot be read ({broken}). End what is left of the stack by hand, then remove the file."
            raise LocalStackError(message) from broken

    def write(self, path: Path) -> None:
        """Write the file; a reader sees the old or the new content, never a part."""
        partial = path.with_suffix(".part")
        partial.write_text(json.dumps(asdict(self), indent=2) + "\n")
        partial.replace(path)

    def alive(self) -> dict[str, ProcessRecord]:
        """Return the processes that still run, by name."""
        return {record.name: record for record in self.processes if record.process()}


@dataclass(frozen=True)
class ProcessStatus:
    """One process of the stack as it is now."""

    name: str
    state: State
    pid: int | None
    port: int
    log: str | None
    progress: JobProgress | None = None


def stack_environment(overrides: Mapping[str, str]) -> dict[str, str]:
    """Return what other commands must know of the settings: KAPPA variables of this shell and explicit overrides."""
    known = {name.lower() for name in Settings.model_fields}
    shell = {
        name: value
        for name, value in os.environ.items()
        if name.startswith("KAPPA_") and name[6:].lower().split("__")[0] in known and name not in _SECRETS
    }
    return {**shell, **overrides}


@dataclass
class Stack:
    """The local stack of one data folder.

    Attributes:
        settings: Settings of the installation, overrides included.
        overrides: Settings given beside `kappa.toml` and shell, as environment variables.
        tell: Receives one sentence per step.
        topics_exist: Called when producers may begin, while Elasticsearch is still starting.
    """

    settings: Settings
    overrides: Mapping[str, str] = field(default_factory=dict)
    tell: Tell = lambda sentence: None
    topics_exist: Callable[[], None] = lambda: None

    @property
    def path(self) -> Path:
        """The stack file."""
        return self.settings.data_dir.absolute() / STACK_FILE

    def default_jobs(self) -> tuple[str, ...]:
        """Return the jobs a chain needs; a history log brings its own ticks until it goes live."""
        return CHAIN if self.settings.time.arrival == "history" else JOBS

    def up(self, jobs: Sequence[str] | None = None, *, wait: bool = True) -> None:
        """Start what does not run yet; with `wait`, return when all of it is ready.

        Raises:
            LocalStackError: A preflight check failed, or a process did not start.
        """
        wanted = tuple(jobs) if jobs is not None else self.default_jobs()
        with self._exclusive():
            self._start_missing(wanted)
        if wait:
            self.wait_for(wanted)

    def start_job(self, job: str, extra: Mapping[str, str] | None = None) -> None:
        """Start one more job in a running stack, with settings of its own if need be."""
        with self._exclusive():
            self._start_jobs([job], extra or {})

    def wait_for(self, jobs: Sequence[str]) -> None:
        """Wait until jobs are ready; raise `LocalStackError` with the end of the log of one that is not."""
        running = self._file().alive()
        for job in jobs:
            port = getattr(self.settings.ports, job)
            record = running.get(job)
            if record is None:
                message = f"{job} has ended. Its log: {self._log(job)}"
                raise LocalStackError(message)
            self.tell(f"waiting for {job} to run")
            wait_until_ready(record, lambda port=port: is_ready(port), self.settings.local.startup_timeout_s)  # type: ignore[misc]

    def down(self, *, wipe: bool = False) -> list[str]:
        """Stop jobs, then servers; return the names of what was stopped. `wipe` removes all data afterwards."""
        with self._exclusive():
            running = (StackFile.read(self.path) or StackFile()).alive()
            jobs = [record for name, record in running.items() if name not in SERVERS]
            servers = [record for name, record in running.items() if name in SERVERS]
            for records in (jobs, servers):
                if records:
                    self.tell(f"stopping {', '.join(record.name for record in records)}")
                    stop(records, self.settings.local.stop_timeout_s)
            self.path.unlink(missing_ok=True)
            if wipe:
                self._wipe()
        return list(running)

    def status(self) -> list[ProcessStatus]:
        """Return every process of the stack, servers first."""
        file = StackFile.read(self.path) or StackFile()
        started = {record.name: record for record in file.processes}
        return [self._status(name, started.get(name)) for name in (*SERVERS, *JOBS)]

    # ---- parts ----------------------------------------------------------------------------------------------------

    def _file(self) -> StackFile:
        return StackFile.read(self.path) or StackFile()

    def _log(self, name: str) -> Path:
        return self.settings.data_dir.absolute() / "logs" / f"{name}.log"

    def _start_missing(self, jobs: Sequence[str]) -> None:
        file = self._file()
        alive = file.alive()
        if file.processes and not alive:
            self.tell("the stack ended without `kappa down`; starting it again")
        self._refuse_other_settings(file, alive)
        missing_jobs = [job for job in jobs if job not in alive]
        if alive and not missing_jobs and all(name in alive for name in SERVERS):
            message = f"The stack of {self.path.parent} is already running: see `kappa status`, or `kappa down` first."
            raise LocalStackError(message)
        preflight.check_java()
        preflight.check_data_dir(self.path.parent, self.settings.local.minimum_free_disk_mb)
        wanted = preflight.ports(self.settings, missing_jobs)
        preflight.check_ports(use for use in wanted if use.process not in alive)
        self._write(list(alive.values()))
        self._ensure_artifacts()
        self._start_servers_and_jobs(alive, missing_jobs)

    def _refuse_other_settings(self, file: StackFile, alive: Mapping[str, ProcessRecord]) -> None:
        wanted = stack_environment(self.overrides)
        differing = sorted(name for name in wanted if wanted[name] != file.environment.get(name))
        if alive and differing:
            message = (
                f"The stack of {self.path.parent} runs with other settings ({', '.join(differing)}). "
                "Run `kappa down` before starting it with new ones."
            )
            raise LocalStackError(message)

    def _start_servers_and_jobs(self, alive: Mapping[str, ProcessRecord], jobs: Sequence[str]) -> None:
        """Start both servers at once; jobs that need only the broker do not wait for Elasticsearch."""
        timeout_s = self.settings.local.startup_timeout_s
        kafka, elasticsearch = self.kafka(), self.elasticsearch()
        broker = alive.get(KAFKA) or self._started("starting Kafka", kafka.start)
        node = alive.get(ELASTICSEARCH) or self._started("starting Elasticsearch", elasticsearch.start)
        kafka.wait(broker, timeout_s)
        created = ensure_topics(self.settings)
        self.tell(f"Kafka answers on {kafka.bootstrap_servers}; {len(created)} topics created")
        self.topics_exist()
        self._start_jobs([job for job in jobs if job != "indexer"], {})
        elasticsearch.wait(node, timeout_s)
        self.tell(f"Elasticsearch answers on {elasticsearch.url}")
        self._start_jobs([job for job in jobs if job == "indexer"], {})

    def _ensure_artifacts(self) -> None:
        store = ArtifactStore()
        if not store.is_complete():
            self.tell("fetching Kafka, Elasticsearch and the connector (about 150 MB, once)")
        store.ensure()

    def _started(self, sentence: str, start: Callable[[], ProcessRecord]) -> ProcessRecord:
        self.tell(sentence)
        record = start()
        others = [other for other in self._file().processes if other.name != record.name]
        self._write([*others, record])
        return record

    def _start_jobs(self, jobs: Sequence[str], extra: Mapping[str, str]) -> None:
        environment = job_environment(self.settings, {**self._environment(), **extra})
        for job in jobs:
            self._started(f"starting job {job}", lambda job=job: start_job(job, self.settings, environment))  # type: ignore[misc]

    def _write(self, records: Sequence[ProcessRecord]) -> None:
        StackFile(self._environment(), tuple(records)).write(self.path)

    def _environment(self) -> dict[str, str]:
        """Return the settings of this stack: what it was started with, under what is said now."""
        return {**self._file().environment, **stack_environment(self.overrides)}

    def kafka(self) -> KafkaServer:
        """Return the broker of this stack."""
        return KafkaServer(
            data_dir=self.path.parent / KAFKA,
            log=self._log(KAFKA),
            port=preflight.broker_port(self.settings),
            controller_port=self.settings.local.controller_port,
            heap=self.settings.local.kafka_heap,
        )

    def elasticsearch(self) -> ElasticsearchServer:
        """Return the Elasticsearch node of this stack."""
        return ElasticsearchServer(
            data_dir=self.path.parent / ELASTICSEARCH,
            log=self._log(ELASTICSEARCH),
            port=preflight.elasticsearch_port(self.settings),
            transport_port=self.settings.local.elasticsearch_transport_port,
            heap=self.settings.local.elasticsearch_heap,
        )

    def _status(self, name: str, record: ProcessRecord | None) -> ProcessStatus:
        port = self._port(name)
        if record is None:
            return ProcessStatus(name, "off", None, port, None)
        if record.process() is None:
            return ProcessStatus(name, "ended", record.pid, port, record.log)
        state: State = "ready" if self._answers(name, port) else "starting"
        job_progress = progress(port) if name in CHAIN else None
        return ProcessStatus(name, state, record.pid, port, record.log, job_progress)

    def _port(self, name: str) -> int:
        if name == KAFKA:
            return preflight.broker_port(self.settings)
        if name == ELASTICSEARCH:
            return preflight.elasticsearch_port(self.settings)
        return int(getattr(self.settings.ports, name))

    def _answers(self, name: str, port: int) -> bool:
        if name == KAFKA:
            return broker_answers(self.settings.kafka.bootstrap_servers, timeout_s=2.0)
        return answers(self.settings.elasticsearch.url) if name == ELASTICSEARCH else is_ready(port)

    def _wipe(self) -> None:
        self.elasticsearch().wipe()
        for name in _DATA:
            shutil.rmtree(self.path.parent / name, ignore_errors=True)

    @contextmanager
    def _exclusive(self) -> Iterator[None]:
        preflight.check_data_dir(self.path.parent, 0)
        with (self.path.parent / "stack.mutex").open("w") as mutex:
            try:
                fcntl.flock(mutex, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as busy:
                message = f"Another kappa command is starting or stopping the stack of {self.path.parent}; wait for it."
                raise LocalStackError(message) from busy
            yield
