"""The topics of the registry in the broker: created where they are missing, refused where they differ."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ConfigResource,
    NewTopic,
    OffsetSpec,
    ResourceType,
)
from tenacity import retry, retry_if_result, stop_after_delay, wait_fixed

from apps.settings import Settings
from topics.registry import TOPICS, Topic

_TIMEOUT_S: Final = 15.0
_APPEARS_WITHIN_S: Final = 30.0


class BrokerUnreachableError(RuntimeError):
    """No broker answers."""


class TopicsDifferError(RuntimeError):
    """Topics exist, but not as the registry and the settings want them.

    Attributes:
        differences: One per setting that differs.
    """

    def __init__(self, differences: Sequence[Difference]) -> None:
        self.differences = tuple(differences)
        lines = (f"{item.topic}: {item.setting} is {item.found}, wanted {item.wanted}" for item in self.differences)
        super().__init__("; ".join(lines))


@dataclass(frozen=True)
class WantedTopic:
    """A topic as it must be in the broker; `name` is the full name."""

    name: str
    topic: Topic
    partitions: int
    replication_factor: int
    config: Mapping[str, str]


@dataclass(frozen=True)
class FoundTopic:
    """A topic as it is in the broker."""

    partitions: int
    replication_factor: int
    config: Mapping[str, str]


@dataclass(frozen=True)
class Difference:
    """One setting of one topic that is not as wanted, and what to do about it."""

    topic: str
    setting: str
    wanted: str
    found: str
    remedy: str


@dataclass(frozen=True)
class TopicContent:
    """How much a topic holds; times are Kafka timestamps, milliseconds since the epoch, None when empty."""

    name: str
    partitions: int
    messages: int
    first_ms: int | None
    last_ms: int | None


def wanted_topics(settings: Settings) -> list[WantedTopic]:
    """Return every topic of the settings' generation, raw ones first."""
    return [_wanted(topic, settings) for topic in TOPICS]


def _wanted(topic: Topic, settings: Settings) -> WantedTopic:
    kafka = settings.kafka
    partitions = {"raw": kafka.raw_partitions, "derived": kafka.derived_partitions, "one": 1}[topic.partitions]
    return WantedTopic(
        name=topic.full_name(settings.generation),
        topic=topic,
        partitions=partitions,
        replication_factor=kafka.replication_factor,
        config=_wanted_config(topic, kafka.replication_factor),
    )


def _wanted_config(topic: Topic, replication_factor: int) -> dict[str, str]:
    return {
        "cleanup.policy": topic.cleanup,
        "retention.ms": str(-1 if topic.retention_ms is None else topic.retention_ms),
        "max.message.bytes": str(topic.message_limit_bytes),
        # Arrival must be monotone per partition: only the broker's clock at the moment of appending is.
        "message.timestamp.type": "LogAppendTime" if topic.layer == "raw" else "CreateTime",
        # One replica may be away without writers having to wait.
        "min.insync.replicas": str(max(1, replication_factor - 1)),
        "unclean.leader.election.enable": "false",
    }


def differences(wanted: WantedTopic, found: FoundTopic) -> list[Difference]:
    """Return what differs; an empty list means the topic is right."""
    config = (
        Difference(wanted.name, name, value, found.config.get(name, "unset"), _config_remedy(wanted.name, name, value))
        for name, value in wanted.config.items()
        if found.config.get(name) != value
    )
    return [*_layout_differences(wanted, found), *config]


def _layout_differences(wanted: WantedTopic, found: FoundTopic) -> list[Difference]:
    pairs = (
        ("partitions", wanted.partitions, found.partitions, _partitions_remedy(wanted, found)),
        (
            "replication factor",
            wanted.replication_factor,
            found.replication_factor,
            f"set [kafka] replication_factor = {found.replication_factor}, or use kafka-reassign-partitions.sh",
        ),
    )
    return [
        Difference(wanted.name, setting, str(want), str(is_), remedy)
        for setting, want, is_, remedy in pairs
        if want != is_
    ]


def _partitions_remedy(wanted: WantedTopic, found: FoundTopic) -> str:
    if wanted.topic.partitions == "one":
        return "this topic has one partition by contract: delete it and run `kappa topics create`"
    keep = f"set [kafka] {wanted.topic.partitions}_partitions = {found.partitions}"
    if wanted.topic.layer == "derived":
        return f"{keep}, or start another generation: partitions of a generation are fixed"
    if wanted.partitions > found.partitions:
        return f"{keep}, or kafka-topics.sh --alter --topic {wanted.name} --partitions {wanted.partitions}"
    return f"{keep}: partitions cannot be taken away"


def _config_remedy(topic: str, name: str, value: str) -> str:
    return f"kafka-configs.sh --alter --entity-type topics --entity-name {topic} --add-config {name}={value}"


class TopicsAdmin:
    """What the broker knows about topics.

    Raises:
        BrokerUnreachableError: From every method, when no broker answers.
    """

    def __init__(self, bootstrap_servers: str, timeout_s: float = _TIMEOUT_S) -> None:
        self._bootstrap_servers = bootstrap_servers
        self._timeout_s = timeout_s
        self._admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})

    def partition_counts(self) -> dict[str, int]:
        """Return the partitions of every topic that has its leaders."""
        return {
            name: len(topic.partitions)
            for name, topic in self._metadata().items()
            if topic.error is None and all(part.leader >= 0 for part in topic.partitions.values())
        }

    def found(self, names: Iterable[str]) -> dict[str, FoundTopic]:
        """Return those of the named topics that exist."""
        metadata = self._metadata()
        present = [name for name in names if name in metadata]
        configs = self._configs(present)
        return {
            name: FoundTopic(
                partitions=len(metadata[name].partitions),
                replication_factor=min(len(part.replicas) for part in metadata[name].partitions.values()),
                config=configs[name],
            )
            for name in present
        }

    def create(self, wanted: Sequence[WantedTopic]) -> list[str]:
        """Create topics and wait until they can be used; return the names this call created."""
        created = self._request_creation(wanted) if wanted else []
        self._wait_for({item.name for item in wanted})
        return created

    def contents(self, names: Sequence[str]) -> list[TopicContent]:
        """Return how much each topic holds, in the order of `names`; absent topics are left out."""
        counts = self.partition_counts()
        present = [name for name in names if name in counts]
        parts = [TopicPartition(name, number) for name in present for number in range(counts[name])]
        first, last, oldest, newest = (self._offsets(parts, spec) for spec in _offset_specs())
        return [
            TopicContent(
                name=name,
                partitions=counts[name],
                messages=sum(last[part].offset - first[part].offset for part in parts if part.topic == name),
                first_ms=min(_timestamps(oldest, name), default=None),
                last_ms=max(_timestamps(newest, name), default=None),
            )
            for name in present
        ]

    def _offsets(self, parts: Sequence[TopicPartition], spec: OffsetSpec) -> dict[TopicPartition, Any]:
        if not parts:
            return {}
        asked = self._admin.list_offsets(dict.fromkeys(parts, spec), request_timeout=_TIMEOUT_S)
        return {part: future.result() for part, future in asked.items()}

    def _metadata(self) -> dict[str, Any]:
        try:
            return dict(self._admin.list_topics(timeout=self._timeout_s).topics)
        except KafkaException as failure:
            message = (
                f"no Kafka broker answers at {self._bootstrap_servers} ({failure.args[0].str()}): start the local "
                "stack with `kappa up`, or set [kafka] bootstrap_servers"
            )
            raise BrokerUnreachableError(message) from failure

    def _configs(self, names: Sequence[str]) -> dict[str, dict[str, str]]:
        if not names:
            return {}
        asked = self._admin.describe_configs([ConfigResource(ResourceType.TOPIC, name) for name in names])
        return {
            resource.name: {key: entry.value for key, entry in future.result(_TIMEOUT_S).items()}
            for resource, future in asked.items()
        }

    def _request_creation(self, wanted: Sequence[WantedTopic]) -> list[str]:
        asked = self._admin.create_topics(
            [
                NewTopic(item.name, item.partitions, item.replication_factor, config=dict(item.config))
                for item in wanted
            ],
            operation_timeout=_TIMEOUT_S,
        )
        return [name for name, future in asked.items() if _was_created(name, future)]

    @retry(retry=retry_if_result(bool), stop=stop_after_delay(_APPEARS_WITHIN_S), wait=wait_fixed(0.1), reraise=True)
    def _wait_for(self, names: set[str]) -> set[str]:
        return names - set(self.partition_counts())


def _offset_specs() -> tuple[Any, Any, Any, Any]:
    spec: Any = OffsetSpec
    return spec.earliest(), spec.latest(), spec.for_timestamp(0), spec.max_timestamp()


def _was_created(name: str, future: Any) -> bool:
    """Return False when another process created the topic at the same moment."""
    try:
        future.result(_TIMEOUT_S)
    except KafkaException as failure:
        if failure.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS:
            return False
        message = f"topic {name} cannot be created: {failure.args[0].str()}"
        raise RuntimeError(message) from failure
    return True


def _timestamps(offsets: Mapping[TopicPartition, Any], name: str) -> list[int]:
    return [result.timestamp for part, result in offsets.items() if part.topic == name and result.timestamp >= 0]


def check_topics(settings: Settings) -> tuple[list[str], list[Difference]]:
    """Return the full names of missing topics, and how the others differ from what is wanted."""
    wanted = wanted_topics(settings)
    found = TopicsAdmin(settings.kafka.bootstrap_servers).found(item.name for item in wanted)
    missing = [item.name for item in wanted if item.name not in found]
    return missing, [
        difference for item in wanted if item.name in found for difference in differences(item, found[item.name])
    ]


def ensure_topics(settings: Settings) -> list[str]:
    """Create what is missing; return the full names of the topics this call created. Safe to repeat.

    Raises:
        TopicsDifferError: Topics exist with other settings; nothing is created or changed then.
        BrokerUnreachableError: No broker answers.
    """
    missing, wrong = check_topics(settings)
    if wrong:
        raise TopicsDifferError(wrong)
    admin = TopicsAdmin(settings.kafka.bootstrap_servers)
    created = admin.create([item for item in wanted_topics(settings) if item.name in missing])
    _, wrong = check_topics(settings)
    if wrong:
        raise TopicsDifferError(wrong)
    return created
