"""A real Kafka broker on loopback: one node in KRaft mode, data kept between starts."""

from __future__ import annotations

import os
import subprocess
import uuid
from base64 import urlsafe_b64encode
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from apps.broker import broker_answers
from apps.local.artifacts import PINS_DIR, SPARK_JARS_DIR, ArtifactStore, classpath
from apps.local.errors import LocalStackError
from apps.local.java import find_java
from apps.local.processes import ProcessRecord, start, wait_until_ready

_LOG_SETTINGS: Final = PINS_DIR / "kafka-log4j2.properties"
_REPLY_TIMEOUT_S: Final = 1.0


@dataclass(frozen=True)
class KafkaServer:
    """What is needed to start a broker; all its data live under `data_dir`."""

    data_dir: Path
    log: Path
    port: int
    controller_port: int
    heap: str = "512m"

    @property
    def bootstrap_servers(self) -> str:
        """Address clients connect to."""
        return f"127.0.0.1:{self.port}"

    def start(self) -> ProcessRecord:
        """Start the broker without waiting for it; format its storage on the first start."""
        self.data_dir.mkdir(parents=True, exist_ok=True)
        properties = self.data_dir / "server.properties"
        properties.write_text(self._properties())
        if not (self._log_dir / "meta.properties").is_file():
            self._format(properties)
        return start(
            "kafka",
            [*self._java(self.heap), "kafka.Kafka", str(properties)],
            log=self.log,
            port=self.port,
            environment=os.environ,
        )

    def wait(self, record: ProcessRecord, timeout_s: float) -> None:
        """Wait until the broker answers; raise `LocalStackError` with the end of its log if it does not."""
        wait_until_ready(record, lambda: broker_answers(self.bootstrap_servers, _REPLY_TIMEOUT_S), timeout_s)

    @property
    def _log_dir(self) -> Path:
        return self.data_dir / "logs"

    def _format(self, properties: Path) -> None:
        cluster_id = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=").replace("-", "A", 1)
        command = [*self._java("128m"), "kafka.tools.StorageTool", "format", "-t", cluster_id, "-c", str(properties)]
        answer = subprocess.run(command, capture_output=True, text=True, check=False)
        if answer.returncode:
            message = f"Kafka cannot format {self._log_dir}:\n{answer.stdout}{answer.stderr}"
            raise LocalStackError(message)

    def _java(self, heap: str) -> list[str]:
        return [
            str(find_java().launcher),
            *(f"-Xms{heap}", f"-Xmx{heap}", "-XX:+UseSerialGC", "-Djava.awt.headless=true"),
            f"-Dlog4j2.configurationFile={_LOG_SETTINGS}",
            *("-cp", classpath([*_logging_jars(), *ArtifactStore().files("kafka")])),
        ]

    def _properties(self) -> str:
        """One node is broker and controller; internal topics are small because clients are few."""
        return f"""\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{self.controller_port}
listeners=PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{self.controller_port}
advertised.listeners=PLAINTEXT://127.0.0.1:{self.port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={self._log_dir}
auto.create.topics.enable=false
message.max.bytes=33554432
replica.fetch.max.bytes=33554432
num.network.threads=2
num.io.threads=4
num.partitions=1
offsets.topic.num.partitions=4
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
log.cleaner.threads=1
log.cleaner.dedupe.buffer.size=16777216
"""


def _logging_jars() -> list[Path]:
    """Return the binding of SLF4J to Log4j, which Kafka's own artifact leaves out; PySpark has the matching one."""
    return [next(SPARK_JARS_DIR.glob(pattern)) for pattern in ("slf4j-api-2*.jar", "log4j-slf4j2-impl-*.jar")]
