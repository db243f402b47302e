"""The feed, the topics and the inventory against a real broker of their own: raw topics have no generation."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import orjson
import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions

from apps.control import send_controls
from apps.feed.delays import parse_delay
from apps.feed.errors import FeedError
from apps.feed.merge import MergeOptions
from apps.feed.run import FeedOptions, FeedResult, feed_tables
from apps.feed.series import Selection
from apps.feed.sources import ColumnNames, open_source
from apps.feed.times import parse_time_ns
from apps.local.kafka import KafkaServer
from apps.local.processes import stop
from apps.log_reader import LogReader, LogRecord
from apps.records_view import full_name, parse_start, watch
from apps.settings import KafkaSettings, Settings
from apps.topics_admin import (
    BrokerUnreachableError,
    TopicsAdmin,
    TopicsDifferError,
    check_topics,
    ensure_topics,
    wanted_topics,
)
from pipelines.parameters import TimeRules
from tests.support import SERVER_START_S, STOP_S, free_port
from topics.records import Inventory
from topics.registry import CONTROL, METRICS, RAW_TOPICS, STATISTICS

pytestmark = pytest.mark.stack

RULES = TimeRules(window_s=10, lateness_s=5, future_s=2, slack_s=1, arrival="history")
START_MS = 1_498_754_000_000


@pytest.fixture(scope="module")
def own_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("feed-kafka")
    server = KafkaServer(folder / "data", folder / "kafka.log", free_port(), free_port())
    record = server.start()
    try:
        server.wait(record, SERVER_START_S)
        yield server.bootstrap_servers
    finally:
        stop([record], STOP_S)


@pytest.fixture
def no_topics(own_kafka: str, local_settings: Settings) -> Settings:
    """Settings of a history chain on a broker without topics."""
    settings = local_settings.model_copy(update={"kafka": KafkaSettings(bootstrap_servers=own_kafka), "time": RULES})
    admin = AdminClient({"bootstrap.servers": own_kafka})
    names = {item.name for item in wanted_topics(settings)} & set(admin.list_topics(timeout=10).topics)
    for future in (admin.delete_topics(sorted(names)) if names else {}).values():
        future.result()
    while names & set(admin.list_topics(timeout=10).topics):
        time.sleep(0.1)
    return settings


@pytest.fixture
def chain(no_topics: Settings) -> Settings:
    """Settings of a history chain with fresh topics."""
    ensure_topics(no_topics)
    return no_topics


def records(settings: Settings, topic: str) -> list[LogRecord]:
    with LogReader(settings.kafka.bootstrap_servers) as reader:
        partitions = {(topic, number): 0 for number in range(1 if topic == CONTROL.name else 2)}
        return list(reader.read(partitions))


def arrivals_by_partition(settings: Settings, topic: str) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for record in sorted(records(settings, topic), key=lambda item: item.offset):
        found.setdefault(record.partition, []).append(record.arrival_ms("history"))
    return found


def fed(settings: Settings, folder: Path, first_s: int = 0, **options: object) -> FeedResult:
    """Feed 100 seconds of two series of three resources."""
    paths = []
    for number in range(3):
        path = folder / f"vm-{number}.csv"
        rows = "".join(f"{START_MS // 1000 + first_s + second},{second},{-second}\n" for second in range(100))
        path.write_text("time,cpu,mem\n" + rows)
        paths.append(path)
    sources = [open_source(path, ColumnNames(), Selection()) for path in paths]
    return feed_tables(settings, sources, FeedOptions(**options))  # type: ignore[arg-type]


# ---- topics ----------------------------------------------------------------------------------------------------------


def test_topics_are_created_once_and_then_checked(no_topics: Settings) -> None:
    wanted = [item.name for item in wanted_topics(no_topics)]
    assert ensure_topics(no_topics) == wanted
    assert ensure_topics(no_topics) == []
    assert check_topics(no_topics) == ([], [])


def test_only_missing_topics_are_created(chain: Settings) -> None:
    admin = AdminClient({"bootstrap.servers": chain.kafka.bootstrap_servers})
    name = STATISTICS.full_name(chain.generation)
    admin.delete_topics([name])[name].result()
    while name in admin.list_topics(timeout=10).topics:
        time.sleep(0.1)
    assert ensure_topics(chain) == [name]


def test_topics_that_differ_are_refused_with_the_difference_and_nothing_is_created(chain: Settings) -> None:
    admin = AdminClient({"bootstrap.servers": chain.kafka.bootstrap_servers})
    admin.create_partitions([NewPartitions(METRICS.name, 3)])[METRICS.name].result()
    while TopicsAdmin(chain.kafka.bootstrap_servers).partition_counts()[METRICS.name] != 3:
        time.sleep(0.1)
    other = chain.model_copy(update={"generation": "g2"})
    with pytest.raises(TopicsDifferError) as refused:
        ensure_topics(other)
    (difference,) = refused.value.differences
    assert (difference.topic, difference.setting) == (METRICS.name, "partitions")
    assert (difference.wanted, difference.found) == ("2", "3")
    assert "raw_partitions = 3" in difference.remedy
    assert STATISTICS.full_name("g2") in check_topics(other)[0]


def test_raw_topics_take_the_brokers_clock(chain: Settings, tmp_path: Path) -> None:
    before_ms = time.time_ns() // 10**6
    fed(chain, tmp_path)
    stamps = [record.timestamp_ms for record in records(chain, METRICS.name)]
    assert before_ms - 1000 <= min(stamps) <= max(stamps) <= time.time_ns() // 10**6 + 1000


def test_an_unreachable_broker_is_named(local_settings: Settings) -> None:
    nobody = KafkaSettings(bootstrap_servers=f"127.0.0.1:{free_port()}")
    with pytest.raises(BrokerUnreachableError, match="no Kafka broker answers at"):
        ensure_topics(local_settings.model_copy(update={"kafka": nobody}))


def test_records_are_shown_without_ticks_newest_last(chain: Settings, tmp_path: Path) -> None:
    fed(chain, tmp_path)
    servers, name = chain.kafka.bootstrap_servers, full_name(METRICS.name, chain)
    latest = [orjson.loads(record.value or b"") for record in watch(servers, name, parse_start("latest"), 6)]
    assert {point["time_ns"] // 10**9 - START_MS // 1000 for point in latest} <= {98, 99}
    assert len(latest) == 6
    first = list(watch(servers, name, parse_start("beginning"), 1, ticks=True))
    assert [record.is_tick for record in first] == [True]
    assert list(watch(servers, name, parse_start("2100-01-01"), 5)) == []


# ---- feed ------------------------------------------------------------------------------------------------------------


def test_every_point_is_in_the_log_once_with_its_arrival(chain: Settings, tmp_path: Path) -> None:
    result = fed(chain, tmp_path, merge=MergeOptions(parse_delay("uniform:0:4"), seed=3))
    points = [record for record in records(chain, METRICS.name) if not record.is_tick]
    values = [orjson.loads(record.value or b"") for record in points]
    assert {(item["resource"], item["metric"], item["time_ns"]) for item in values} == {
        (f"vm-{number}", metric, (START_MS + 1000 * second) * 10**6)
        for number in range(3)
        for metric in ("cpu", "mem")
        for second in range(100)
    }
    assert len(values) == result.points == 600
    delays = [
        record.arrival_ms("history") - item["time_ns"] // 10**6 for record, item in zip(points, values, strict=True)
    ]
    assert 0 <= min(delays) < 500
    assert 3500 < max(delays) <= 4000
    assert all(record.key == item["resource"].encode() for record, item in zip(points, values, strict=True))
    assert result.late == 0


def test_arrival_never_goes_back_and_ticks_close_every_window_everywhere(chain: Settings, tmp_path: Path) -> None:
    result = fed(chain, tmp_path)
    last_ms = START_MS + 99_000
    closing_ms = last_ms + 1000 * (10 + 5 + 1 + 2)
    assert result.last_arrival_ms == closing_ms
    for topic in RAW_TOPICS:
        by_partition = arrivals_by_partition(chain, topic.name)
        assert len(by_partition) == (1 if topic is CONTROL else 2)
        for arrivals in by_partition.values():
            assert arrivals == sorted(arrivals)
            assert (arrivals[0], arrivals[-1]) == (START_MS, closing_ms)
    ticks = [record.arrival_ms("history") for record in records(chain, CONTROL.name)]
    assert all(tick % 10_000 == 6_000 for tick in ticks[1:-1])  # window end + lateness + slack
    assert max(later - earlier for earlier, later in pairwise(ticks)) == 10_000


def test_the_same_feed_gives_the_same_log(chain: Settings, no_topics: Settings, tmp_path: Path) -> None:
    def content() -> list[tuple[int, int, bytes | None, bytes | None, tuple[tuple[str, bytes], ...]]]:
        found = records(chain, METRICS.name)
        return sorted((item.partition, item.offset, item.key, item.value, item.headers) for item in found)

    options = {"merge": MergeOptions(parse_delay("exponential:2"), seed=5)}
    fed(chain, tmp_path, **options)
    once = content()
    admin = AdminClient({"bootstrap.servers": chain.kafka.bootstrap_servers})
    ends = {
        TopicPartition(topic.name, number, -1) for topic in RAW_TOPICS for number in range(1 if topic is CONTROL else 2)
    }
    for future in admin.delete_records(sorted(ends, key=str)).values():
        future.result()
    fed(chain, tmp_path, **options)
    emptied = min(item[1] for item in content())
    assert emptied > 0
    assert [item[2:] for item in content()] == [item[2:] for item in once]


def test_a_feed_behind_the_logs_clock_is_refused_and_can_be_shifted(chain: Settings, tmp_path: Path) -> None:
    first = fed(chain, tmp_path)
    with pytest.raises(FeedError, match=r"already reached 2017-06-29T16:35:17\.000Z .*--shift-to"):
        fed(chain, tmp_path)
    shifted = fed(chain, tmp_path, shift_to_ns=(first.last_arrival_ms + 1) * 10**6)
    assert shifted.first_ns == (first.last_arrival_ms + 1) * 10**6
    assert arrivals_by_partition(chain, METRICS.name) == {
        partition: sorted(arrivals) for partition, arrivals in arrivals_by_partition(chain, METRICS.name).items()
    }


def test_feeds_continue_one_another_without_the_final_ticks(chain: Settings, tmp_path: Path) -> None:
    assert fed(chain, tmp_path, flush=False).last_arrival_ms == START_MS + 99_000
    assert fed(chain, tmp_path, first_s=100).points == 600


def test_a_live_chain_and_absent_topics_are_refused(no_topics: Settings, tmp_path: Path) -> None:
    with pytest.raises(FeedError, match="run `kappa topics create`"):
        fed(no_topics, tmp_path)
    live = no_topics.model_copy(update={"time": TimeRules()})
    with pytest.raises(FeedError, match="kappa up --history"):
        fed(live, tmp_path)


def test_late_points_are_told(chain: Settings, tmp_path: Path) -> None:
    assert fed(chain, tmp_path, merge=MergeOptions(parse_delay("7"))).late == 600


def test_a_span_that_can_only_be_a_mistake_is_refused(chain: Settings, tmp_path: Path) -> None:
    path = tmp_path / "vm.csv"
    path.write_text("time,cpu\n1498754000,1\n5,1\n")
    source = open_source(path, ColumnNames(), Selection())
    with pytest.raises(FeedError, match=r"span 1970-01-01T00:00:05\.000Z to 2017"):
        feed_tables(chain, [source], FeedOptions())


# ---- inventory -------------------------------------------------------------------------------------------------------


def test_inventory_arrives_with_the_logs_clock(chain: Settings, tmp_path: Path) -> None:
    entries = [Inventory("vm-0", "upf", "north"), Inventory("vm-1", "smf", "south", "s1")]
    with pytest.raises(FeedError, match="log is empty"):
        send_controls(chain, entries)
    assert send_controls(chain, entries, parse_time_ns("2017-06-29T16:00:00Z")) == 1_498_752_000_000
    closing_ms = fed(chain, tmp_path).last_arrival_ms
    with pytest.raises(FeedError, match="already reached"):
        send_controls(chain, entries, START_MS * 10**6)
    assert send_controls(chain, entries) == closing_ms
    found = [record for record in records(chain, CONTROL.name) if not record.is_tick]
    assert [record.value for record in found] == [orjson.dumps(entry) for entry in entries] * 2
    assert [record.arrival_ms("history") for record in found] == [1_498_752_000_000] * 2 + [closing_ms] * 2


def test_a_live_inventory_has_no_arrival_of_its_own(chain: Settings) -> None:
    live = chain.model_copy(update={"time": TimeRules()})
    assert send_controls(live, [Inventory("vm-0", "upf")]) is None
    (record,) = records(live, CONTROL.name)
    assert (record.key, record.headers) == (b"vm-0", ())
    with pytest.raises(FeedError, match="--at is for history mode"):
        send_controls(live, [Inventory("vm-0")], 1)
