"""The main job on real input: 11 routers, BGP sessions cleared, incidents compared with the ground truth.

    python -m benchmarks.cisco --window-s 10

Starts a local stack of its own in history mode, feeds the routers' telemetry (one wide file each), waits until every
window is closed, judged and indexed, reads the incidents from Elasticsearch, and prints per event whether it was found,
after how long, and whether the affected router was named first; then every false incident with its time.

Delay: the arrival clock when the window closes with which the incident opened (its end + lateness + slack), minus the
event's start. Data: the folder named by KAPPA_DATA (default `../shared/data`).
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import orjson
import psutil
from rich.console import Console
from rich.table import Table

from apps.console import environment_from, override
from apps.demo.watch import incident_of
from apps.elasticsearch import IncidentQuery, connect, search_incidents
from apps.feed.display import FeedDisplay
from apps.feed.run import FeedOptions, FeedResult, feed_tables
from apps.feed.series import Rules, Selection
from apps.feed.sources import ColumnNames, open_source
from apps.feed.times import format_ns
from apps.local.jobs import CHAIN, progress
from apps.local.stack import Stack
from apps.log_reader import LogReader, LogRecord
from apps.settings import Settings, load_settings
from benchmarks.cisco_events import Judgement, judge, largest_grace_ms, read_ground_truth
from topics import registry
from topics.records import Incident

DATASET = "bgpclear_first"
#: Counters by their names in the YANG models of the routers; everything else is a gauge.
COUNTERS = (
    "*bytes-received",
    "*bytes-sent",
    "*packets-received",
    "*packets-sent",
    "*-packets",
    "*-drops",
    "*-drop",
    "*update-messages*",
    "*configuration-items-processed",
)
_QUIET_LOOKS = 10
_LOOK_S = 1.0

console = Console(width=140)


@dataclass(frozen=True)
class Outcome:
    """What the chain made of the data."""

    fed: FeedResult
    incidents: list[Incident]
    opened_ms: dict[str, int]
    feed_s: float
    drain_s: float


def data_folder() -> Path:
    """Return the folder of the Cisco data; ends the program, saying so, if it is not there."""
    folder = Path(os.environ.get("KAPPA_DATA", "../shared/data")) / "cisco_telemetry"
    if not (folder / "by_node" / DATASET).is_dir():
        sys.exit(f"no data in {folder / 'by_node' / DATASET}: set KAPPA_DATA to the folder of the data sets")
    return folder


def run(stack: Stack, files: Sequence[Path], options: FeedOptions, given: argparse.Namespace) -> Outcome:
    """Feed the files and wait until the chain has worked them off."""
    settings = stack.settings
    stack.up(() if given.feed_first else None)
    sources = [open_source(path, ColumnNames(), Selection()) for path in files]
    started = time.monotonic()
    with FeedDisplay(console) as display:
        fed = feed_tables(settings, sources, options, display, lambda found: display.found(sources, found))
    fed_at = time.monotonic()
    if given.feed_first:
        stack.up(CHAIN)
    drain(settings, last_window_end_ms(settings, fed), given.timeout_s)
    drained_at = time.monotonic()
    client = connect(settings.elasticsearch)
    found = search_incidents(client, IncidentQuery(limit=10_000, generation=settings.generation))
    client.close()
    return Outcome(
        fed, [incident_of(item) for item in found], opened_ms(settings), fed_at - started, drained_at - fed_at
    )


def last_window_end_ms(settings: Settings, fed: FeedResult) -> int:
    """Return the end of the last window that holds a point."""
    window_ms = 1000 * settings.time.window_s
    return (fed.last_ns // 10**6 // window_ms + 1) * window_ms


def drain(settings: Settings, target_ms: int, timeout_s: float) -> None:
    """Wait until every window is closed and summarised, and the jobs behind have nothing left to read."""
    give_up = time.monotonic() + timeout_s
    steps: tuple[tuple[str, Callable[[], bool]], ...] = (
        ("windows closed in every partition", lambda: newest_markers_ms(settings) >= target_ms),
        ("windows summarised in every bucket", lambda: newest_summaries_ms(settings) >= target_ms),
        ("incidents and indexer caught up", quiet(settings)),
    )
    for name, reached in steps:
        with console.status(name):
            while not reached():
                if time.monotonic() > give_up:
                    sys.exit(
                        f"gave up after {timeout_s:.0f} s waiting for: {name}; look at the logs in {settings.data_dir}"
                    )
                time.sleep(_LOOK_S)
        console.print(f"  {name}")


def newest_markers_ms(settings: Settings) -> int:
    """Return the window end up to which every partition of the statistics topic is closed; 0 for none."""
    ends = (
        _end_ms(latest(settings, registry.STATISTICS, part, 1)) for part in range(settings.kafka.derived_partitions)
    )
    return min(ends)


def newest_summaries_ms(settings: Settings) -> int:
    """Return the window end up to which every bucket has a summary; 0 for none.

    All summaries are read: a batch writes its buckets one after the other, so the newest records may be of one bucket.
    """
    newest: dict[int, int] = {}
    name = registry.SUMMARIES.full_name(settings.generation)
    with LogReader(settings.kafka.bootstrap_servers) as reader:
        for record in reader.read({(name, part): 0 for part in range(settings.kafka.derived_partitions)}):
            summary = orjson.loads(record.value or b"{}")
            newest[summary["bucket"]] = max(newest.get(summary["bucket"], 0), summary["window_end_ms"])
    return min(newest.values()) if len(newest) == settings.novelty.buckets else 0


def latest(settings: Settings, topic: registry.Topic, partition: int, count: int) -> list[LogRecord]:
    """Return the newest records of a partition of a derived topic."""
    with LogReader(settings.kafka.bootstrap_servers) as reader:
        return reader.latest((topic.full_name(settings.generation), partition), count)


def _end_ms(records: Sequence[LogRecord]) -> int:
    # The last record of a closed window is its marker.
    return max((orjson.loads(record.value or b"{}").get("window_end_ms", 0) for record in records), default=0)


def quiet(settings: Settings) -> Callable[[], bool]:
    """Return a check that holds when no job has had anything to read for a while."""
    looks: list[bool] = []

    def reached() -> bool:
        states = [progress(getattr(settings.ports, job)) for job in CHAIN]
        looks.append(all(state is not None and state.lag_records == 0 for state in states))
        return len(looks) >= _QUIET_LOOKS and all(looks[-_QUIET_LOOKS:])

    return reached


def opened_ms(settings: Settings) -> dict[str, int]:
    """Return by incident the end of the window with which it opened: that of its first record."""
    name = registry.INCIDENTS.full_name(settings.generation)
    with LogReader(settings.kafka.bootstrap_servers) as reader:
        records = [orjson.loads(record.value) for record in reader.read({(name, 0): 0}) if record.value]
    return {record["id"]: record["last_window_end_ms"] for record in reversed(records)}


def show(settings: Settings, outcome: Outcome, judgement: Judgement) -> None:
    """Print what was found, when, and what was false."""
    closing_ms = 1000 * (settings.time.lateness_s + settings.time.slack_s)
    table = Table(
        "router", "start (UTC)", "found", "delay", "named first", "routers named", "the first of them", box=None
    )
    delays = []
    for verdict in judgement.verdicts:
        event, incident = verdict.event, verdict.incident
        if incident is None:
            table.add_row(event.router, _clock(event.start_ms), "[red]no[/]")
            continue
        delays.append((outcome.opened_ms[incident.id] + closing_ms - event.start_ms) / 1000)
        first = "yes" if verdict.named_first else "no"
        table.add_row(
            event.router,
            _clock(event.start_ms),
            "yes",
            f"{delays[-1]:.1f} s",
            first,
            str(len(incident.resources)),
            ", ".join(incident.resources[:4]),
        )
    console.print(table)
    widest = max((len(incident.resources) for incident in outcome.incidents), default=0)
    wide = sum(
        verdict.incident is not None and len(verdict.incident.resources) == widest for verdict in judgement.verdicts
    )
    named = sum(verdict.named_first for verdict in judgement.verdicts)
    console.print(
        f"events found: {judgement.found} of {len(judgement.verdicts)}; affected router named first: {named}; "
        f"found only by an incident as wide as the widest ({widest} routers, so naming says little): {wide}; "
        f"delay: {_spread(delays)}; incidents: {len(outcome.incidents)}, false: {len(judgement.false)}"
    )
    for incident in judgement.false:
        end = "open" if incident.end_ms is None else _clock(incident.end_ms)
        console.print(
            f"  false: {_clock(incident.start_ms)} to {end} {incident.severity} {incident.scope} "
            f"{', '.join(incident.resources[:6])}: {incident.explanation}",
            markup=False,
        )


def show_run(settings: Settings, outcome: Outcome) -> None:
    """Print the machine, the settings that matter and how long it took."""
    memory = psutil.virtual_memory().total / 2**30
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    rules, incidents = settings.time, settings.incident_parameters()
    console.print(
        f"{platform.machine()}, {os.cpu_count()} cores, {memory:.0f} GiB, Python {platform.python_version()}, "
        f"load {load}; "
        f"window {rules.window_s} s, lateness {rules.lateness_s} s, slack {rules.slack_s} s, "
        f"warm-up {incidents.warmup_windows} windows, "
        f"{incidents.false_incidents_per_day:g} false incidents wanted a day"
    )
    console.print(
        f"{outcome.fed.points:,} points fed in {outcome.feed_s:.0f} s, chain drained {outcome.drain_s:.0f} s later "
        f"({outcome.fed.points / (outcome.feed_s + outcome.drain_s):,.0f} points/s end to end)"
    )


def _clock(time_ms: int) -> str:
    return format_ns(time_ms * 10**6)[11:19]


def _spread(values: Sequence[float]) -> str:
    if not values:
        return "none"
    ordered = sorted(values)
    return f"{ordered[0]:.1f} to {ordered[-1]:.1f} s, median {ordered[len(ordered) // 2]:.1f} s"


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--window-s", type=int, default=10)
    parser.add_argument("--lateness-s", type=int, default=2)
    parser.add_argument(
        "--warmup-s",
        type=int,
        default=240,
        help="the first event begins 337 s after the first point, so this looks at the truth",
    )
    parser.add_argument("--grace-s", type=int, default=20, help="after an event's end its incident may still begin")
    parser.add_argument("--timeout-s", type=float, default=1800.0)
    parser.add_argument("--data-dir", type=Path, default=Path(".kappa/benchmark-cisco"))
    parser.add_argument("--feed-first", action="store_true", help="start the jobs when the log is complete")
    parser.add_argument("--plain", action="store_true", help="feed counters as gauges too")
    parser.add_argument("--set", action="append", default=[], help="a setting, section.name=value; may be repeated")
    parser.add_argument("--keep", action="store_true", help="leave the stack running")
    given = parser.parse_args()
    folder = data_folder()
    events = read_ground_truth(folder / "ground_truth" / f"{DATASET}.txt")
    if (most_ms := largest_grace_ms(events, 1000 * given.window_s)) < 1000 * given.grace_s:
        parser.error(f"--grace-s reaches into the next fault: at most {most_ms // 1000} with this window")
    overrides = {
        "KAPPA_DATA_DIR": str(given.data_dir),
        "KAPPA_TIME__ARRIVAL": "history",
        **environment_from(
            [
                f"time.window_s={given.window_s}",
                f"time.lateness_s={given.lateness_s}",
                f"incidents.warmup_windows={-(-given.warmup_s // given.window_s)}",
                *given.set,
            ]
        ),
    }
    override(overrides)
    settings = load_settings()
    stack = Stack(settings, overrides, tell=lambda sentence: console.print(f"  {sentence}"))
    stack.down(wipe=True)
    try:
        files = sorted((folder / "by_node" / DATASET).glob("*.csv.gz"))
        kinds = Rules("gauge", () if given.plain else tuple((pattern, "cumulative") for pattern in COUNTERS))
        outcome = run(stack, files, FeedOptions(kinds=kinds), given)
    finally:
        if not given.keep:
            stack.down()
    judgement = judge(events, outcome.incidents, 1000 * given.window_s, 1000 * given.grace_s)
    show(settings, outcome, judgement)
    show_run(settings, outcome)


if __name__ == "__main__":
    main()
