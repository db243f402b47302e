"""What the demo shows: progress of the chain and incidents beside their faults; lines where there is no terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from apps.demo.judge import Judgement
from apps.demo.watch import Picture
from apps.local.jobs import CHAIN
from apps.local.stack import ProcessStatus
from apps.simulator.faults import Fault
from apps.simulator.scoring import explains
from topics.records import Incident, Severity

_SEVERITY_STYLES: Final[dict[Severity, str]] = {
    "critical": "bold red",
    "major": "red",
    "minor": "yellow",
    "warning": "cyan",
    "none": "dim",
}
_STATE_STYLES: Final = {"ready": "green", "starting": "yellow", "ended": "bold red", "off": "dim"}
_WORK: Final = {
    "kafka": "the log",
    "elasticsearch": "what people search",
    "statistics": "exact statistics per resource and window",
    "novelty": "scores every series, then learns from it",
    "incidents": "joins findings to incidents",
    "indexer": "writes Elasticsearch",
    "heartbeat": "the arrival clock",
}


def utc(time_ms: float | None, form: str = "%m-%d %H:%M") -> str:
    """Return an event time for people, empty for None."""
    return "" if time_ms is None else datetime.fromtimestamp(time_ms / 1000, UTC).strftime(form)


def cause(incident: Incident, faults: Iterable[Fault]) -> Fault | None:
    """Return the fault that explains an incident; the latest to begin, if several do."""
    causes = [fault for fault in faults if explains(fault, incident)]
    return max(causes, key=lambda fault: fault.start_ms, default=None)


@dataclass
class Simulation:
    """How far the simulator is; its thread writes, the view reads."""

    start_ms: int
    live_from_ms: int
    records: int = 0
    reached_ms: int = 0
    live: bool = False

    def sent(self, count: int, arrival_ms: int) -> None:
        """Take note of records written."""
        self.records += count
        self.reached_ms = max(self.reached_ms, arrival_ms)


@dataclass
class Screen:
    """State of the view.

    Attributes:
        faults: The truth.
        simulation: How far the simulator is.
        incidents: Incidents found in Elasticsearch, oldest first.
    """

    faults: Sequence[Fault]
    simulation: Simulation
    started_s: float
    message: str = "starting"
    picture: Picture | None = None
    incidents: list[Incident] = field(default_factory=list)
    now_s: float = 0.0

    def render(self, height: int) -> RenderableType:
        """Return the whole screen; incidents take the lines that are left."""
        rows = max(3, height - 20)
        return Group(
            self._head(), self._chain(), incident_table(self.incidents[-rows:], self.faults, len(self.incidents))
        )

    def line(self) -> str:
        """Return the progress as one line, for output that is no terminal."""
        parts = [f"{self.now_s - self.started_s:6.1f} s", self.message, f"{self.simulation.records:,} records written"]
        if self.picture:
            lag = self.picture.lag_records
            parts += [
                f"closed up to {utc(self.picture.reached.closed_ms) or '-'}",
                f"scored up to {utc(self.picture.reached.scored_ms) or '-'}",
                f"lag {'-' if lag is None else f'{lag:,.0f}'}",
            ]
        return " | ".join([*parts, f"{len(self.incidents)} incidents"])

    def _head(self) -> Text:
        elapsed = self.now_s - self.started_s
        simulation = self.simulation
        speed = simulation.records / max(elapsed, 1.0)
        where = "live" if simulation.live else f"history written up to {utc(simulation.reached_ms or None) or '-'}"
        return Text.assemble(
            (f" {elapsed:5.0f} s ", "reverse"),
            f"  {self.message}  ",
            (f"simulator: {where}, {simulation.records:,} records, {speed:,.0f}/s", "dim"),
        )

    def _chain(self) -> Table:
        table = Table("process", "state", "event time", "lag", "batch", "", box=box.SIMPLE, padding=(0, 1, 0, 0))
        for process in self.picture.processes if self.picture else ():
            state = Text(process.state, style=_STATE_STYLES[process.state])
            table.add_row(process.name, state, *self._progress(process), Text(_WORK[process.name], style="dim"))
        return table

    def _progress(self, process: ProcessStatus) -> tuple[str, str, str]:
        progress = process.progress
        if process.name not in CHAIN or progress is None or self.picture is None:
            return "", "", ""
        event_time = {"statistics": self.picture.reached.closed_ms, "novelty": self.picture.reached.scored_ms}
        records = self.picture.lags.get(process.name)
        lag = "" if records is None else f"{records:,}"
        batch = "" if not progress.batch_s else f"{progress.batch_s:.1f} s"
        return utc(event_time.get(process.name)), lag, batch


def incident_table(incidents: Sequence[Incident], faults: Sequence[Fault], total: int) -> Table:
    """Return incidents, each beside the fault that caused it."""
    title = f"{total} incidents in Elasticsearch" + (f", the last {len(incidents)}" if total > len(incidents) else "")
    table = Table(
        "from (UTC)", "severity", "incident", "injected fault", box=box.SIMPLE, title=title, title_justify="left"
    )
    for incident in incidents:
        fault = cause(incident, faults)
        table.add_row(
            utc(incident.start_ms),
            Text(incident.severity, style=_SEVERITY_STYLES[incident.severity]),
            Text(incident.explanation, overflow="ellipsis", no_wrap=True),
            Text(f"{fault.kind}: {fault.description}" if fault else "none", style="" if fault else "dim"),
        )
    return table


def incident_line(incident: Incident, faults: Sequence[Fault], elapsed_s: float) -> str:
    """Return one incident as a line."""
    fault = cause(incident, faults)
    why = f"{fault.kind}: {fault.description}" if fault else "no injected fault"
    return (
        f"{elapsed_s:6.1f} s | INCIDENT {utc(incident.start_ms)} {incident.severity}: {incident.explanation} <- {why}"
    )


def show_judgement(console: Console, judgement: Judgement, first_incident_s: float | None) -> None:
    """Print the table of faults, the incidents without one, and the latencies."""
    console.print(_verdicts(judgement))
    report = judgement.report
    for incident in report.false:
        console.print(f"  without a fault: {utc(incident.start_ms)} {incident.severity} {incident.explanation}")
    must_find = [verdict for verdict in report.verdicts if verdict.fault.must_find]
    found = sum(verdict.found for verdict in must_find)
    console.print(f"faults found: {found} of {len(must_find)} that must be found")
    console.print(f"incidents without a fault: {len(report.false)} (bound: {judgement.most_false})")
    if judgement.absent:
        console.print(f"[red]not searchable in Elasticsearch: {', '.join(judgement.absent)}[/]")
    if first_incident_s is not None:
        console.print(f"first incident on screen: {first_incident_s:.0f} s after start")
    if latency := judgement.latency:
        console.print(
            f"window end + lateness + slack -> searchable: p50 {latency.p50_s:.1f} s, p95 {latency.p95_s:.1f} s "
            f"({latency.incidents} live incident records)"
        )
    console.print("[bold green]passed[/]" if judgement.passed else "[bold red]failed[/]")


def _names(incidents: Sequence[str]) -> str:
    """Return the first incident's short name, and how many more there are."""
    more = f" +{len(incidents) - 1}" if len(incidents) > 1 else ""
    return incidents[0][:12] + more if incidents else ""


def _verdicts(judgement: Judgement) -> Table:
    table = Table("fault", "kind", "from (UTC)", "must find", "incident", "delay", box=box.SIMPLE, padding=(0, 1, 0, 0))
    for verdict in judgement.report.verdicts:
        fault = verdict.fault
        missed = "[bold red]missed[/]" if fault.must_find else "[dim]none[/]"
        table.add_row(
            fault.id.split("-")[0],
            fault.kind,
            utc(fault.start_ms),
            "yes" if fault.must_find else "no",
            _names(verdict.incidents) or missed,
            "" if verdict.delay_ms is None else f"{verdict.delay_ms / 60_000:.1f} min",
        )
    return table
