"""The demo from start to end: servers and jobs, two days of history at full speed, live faults, and the verdict."""

from __future__ import annotations

import fcntl
import gc
import os
import signal
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from confluent_kafka import KafkaException
from rich.console import Console
from rich.live import Live
from tenacity import retry, retry_if_exception_type, stop_after_delay, wait_fixed

from apps.demo.judge import Judgement, judge, latency_of
from apps.demo.view import Screen, Simulation, incident_line, show_judgement
from apps.demo.watch import IncidentWatch, Picture, picture
from apps.local.errors import LocalStackError
from apps.local.jobs import CHAIN, HEARTBEAT
from apps.local.processes import log_end, stop_children
from apps.local.stack import Stack
from apps.settings import Settings, load_settings
from apps.simulator.faults import write_truth
from apps.simulator.stream import Plan
from apps.simulator.writer import Observer, raw_partitions, run, wall_clock_ms
from topics.records import Incident

#: Settings of the demo; those set in the environment or with --set go before them, `kappa.toml` is not read.
DEMO_SETTINGS: Final[Mapping[str, str]] = {
    "KAPPA_SETTINGS": os.devnull,
    "KAPPA_DATA_DIR": ".kappa/demo",
    "KAPPA_TIME__ARRIVAL": "history",
    "KAPPA_TIME__WINDOW_S": "60",
    "KAPPA_TIME__LATENESS_S": "10",
    "KAPPA_TIME__FUTURE_S": "5",
    "KAPPA_TIME__SLACK_S": "1",
    "KAPPA_NOVELTY__BUCKETS": "4",
    "KAPPA_KAFKA__RAW_PARTITIONS": "1",
    "KAPPA_STATISTICS__BATCH_POINTS": "150000",
    # The next run starts from nothing: no need to wait for a long batch of the catch-up.
    "KAPPA_LOCAL__STOP_TIMEOUT_S": "10",
}

_LOOK_EVERY_S: Final = 0.25
_PICTURE_EVERY_S: Final = 1.0
_LINE_EVERY_S: Final = 5.0
#: How long the chain may take to finish what was written before the demo gives up on it.
_CATCH_UP_LIMIT_S: Final = 1200.0
#: A search sees what was written up to one refresh ago.
_SETTLE_S: Final = 3.0
_SIMULATOR_NICENESS: Final = 10
_ELECTION_LIMIT_S: Final = 20.0


class InterruptedDemo(BaseException):
    """Ctrl-C or a signal: end in good order."""


@dataclass(frozen=True)
class DemoOptions:
    """What is asked of the demo; durations in milliseconds."""

    once: bool
    history_ms: int
    live_ms: int
    seed: int
    resources: int

    def plan(self, settings: Settings, now_ms: int) -> Plan:
        """Return what to simulate; without `once` the live part has no end."""
        interval_s = settings.time.window_s
        start_ms = (now_ms - self.history_ms) // (interval_s * 1000) * (interval_s * 1000)
        live_ms = self.live_ms if self.once else None
        return Plan(start_ms, now_ms - start_ms, live_ms, self.seed, self.resources, interval_s, True, settings.time)


def demo_settings(overrides: Mapping[str, str]) -> Settings:
    """Return the demo's settings, and make them hold for this process and its children."""
    for name, value in DEMO_SETTINGS.items():
        os.environ.setdefault(name, value)
    os.environ.update(overrides)
    return load_settings()


def run_demo(options: DemoOptions, settings: Settings, console: Console) -> bool:
    """Run the demo until it is interrupted or, with `once`, has judged itself; return whether it passed.

    Everything it started is stopped when it returns or raises.

    Raises:
        LocalStackError: Something cannot start, or ended on its own.
    """
    with ExitStack() as cleanup:
        cleanup.enter_context(_only_one(settings.data_dir.absolute()))
        interrupts = cleanup.enter_context(_signals_interrupt())
        demo = _Demo(options, settings, console, Stack(settings, _stack_settings()))
        cleanup.callback(demo.stop)
        cleanup.callback(interrupts.ignore)
        try:
            judgement = demo.play()
        except InterruptedDemo as interrupt:
            console.print(f"stopping ({interrupt})")
            return not options.once
        return judgement.passed


def _stack_settings() -> dict[str, str]:
    """Return the demo's settings as the stack file keeps them, for other commands on the same data folder."""
    return {name: os.environ[name] for name in DEMO_SETTINGS if name != "KAPPA_SETTINGS"}


@dataclass
class _Demo:
    options: DemoOptions
    settings: Settings
    console: Console
    stack: Stack
    halt: threading.Event = field(default_factory=threading.Event)
    threads: list[threading.Thread] = field(default_factory=list)
    failure: BaseException | None = None
    first_incident_s: float | None = None
    live_from_ms: int | None = None

    def __post_init__(self) -> None:
        now_ms = wall_clock_ms()
        self.plan = self.options.plan(self.settings, now_ms)
        self.faults = self.plan.faults()
        self.screen = Screen(self.faults, Simulation(self.plan.start_ms, self.plan.live_from_ms), time.monotonic())
        self.watch = IncidentWatch(self.settings, wall_clock_ms)
        self.stack.tell = self._say
        self.stack.topics_exist = self._start_simulation

    # ---- acts

    def play(self) -> Judgement:
        """Play all acts; return only with `once`, else run until interrupted."""
        with self._shown():
            self._say("making room for a fresh run")
            self.stack.down(wipe=True)
            self.stack.up(CHAIN, wait=False)
            write_truth(self.settings.data_dir / "truth.jsonl", self.faults)
            self._in_background(self._keep_picture, "picture")
            self._say("history at full speed")
            self._follow_until_done()
            judgement = self._judge()
        show_judgement(self.console, judgement, self.first_incident_s)
        return judgement

    def stop(self) -> None:
        """Stop the simulator, the jobs, the servers."""
        self.halt.set()
        for thread in self.threads:
            thread.join(timeout=30)
        gc.collect()  # producers in reference cycles would go on looking for the broker, and complain
        self.watch.close()
        self.stack.tell = lambda sentence: self.console.print(f"  {sentence}")
        stopped = self.stack.down()
        stop_children(self.settings.local.stop_timeout_s)
        self.console.print(f"stopped {', '.join(stopped) or 'nothing'}; logs are in {self.settings.data_dir / 'logs'}")

    def _follow_until_done(self) -> None:
        """Show what comes; with `once`, return when the chain has finished all that was written."""
        deadline_s: float | None = None
        while True:
            self._look()
            if self.options.once and not self._simulating():
                deadline_s = deadline_s or time.monotonic() + _CATCH_UP_LIMIT_S
                if self._finished() or time.monotonic() > deadline_s:
                    break
                self._say("waiting for the last windows")
            time.sleep(_LOOK_EVERY_S)
        until_s = time.monotonic() + _SETTLE_S
        while time.monotonic() < until_s:
            self._look()
            time.sleep(_LOOK_EVERY_S)

    def _look(self) -> None:
        """Take in what happened; start the heartbeat at the handover; end when a part has ended on its own."""
        if self.failure is not None:
            raise self.failure
        if self.live_from_ms is not None and not self.screen.simulation.live:
            self.screen.simulation.live = True
            self.stack.start_job(HEARTBEAT, {"KAPPA_TIME__ARRIVAL": "broker"})
            self._say("live: watch the faults come")
        for incident in self.watch.look():
            self._note(incident)
        self._refuse_ended()

    def _note(self, incident: Incident) -> None:
        elapsed_s = time.monotonic() - self.screen.started_s
        if self.first_incident_s is None:
            self.first_incident_s = elapsed_s
        self.screen.incidents.append(incident)
        if not self.console.is_terminal:
            self.console.print(incident_line(incident, self.faults, elapsed_s), soft_wrap=True, markup=False)

    def _refuse_ended(self) -> None:
        for process in self.screen.picture.ended if self.screen.picture else ():
            log = Path(process.log or "")
            message = f"{process.name} has ended on its own. Its log {log} ends with:\n{log_end(log)}"
            raise LocalStackError(message)

    def _finished(self) -> bool:
        """Tell whether every window of the plan is scored, and what came of it has gone all the way.

        Ticks go on arriving, so something always waits before the first two jobs.
        """
        now: Picture | None = self.screen.picture
        if now is None or now.reached.scored_ms is None or self.plan.end_ms is None:
            return False
        window_ms = self.settings.time.window_s * 1000
        return now.reached.scored_ms >= self.plan.end_ms // window_ms * window_ms and now.findings_waiting == 0

    def _judge(self) -> Judgement:
        live_from_ms = self.live_from_ms if self.live_from_ms is not None else self.plan.live_from_ms
        latency = latency_of(self.watch.records, self.watch.first_seen_ms, self.settings, live_from_ms)
        end_ms = self.plan.end_ms or wall_clock_ms()
        return judge(self.faults, self.settings, (self.plan.start_ms, end_ms), self.watch.latest, latency)

    # ---- beside the acts

    def _start_simulation(self) -> None:
        self._in_background(self._simulate, "simulator")

    def _simulate(self) -> None:
        # The jobs start at the same time and have more to do; on Linux priority belongs to the thread.
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _SIMULATOR_NICENESS)
        observer = Observer(self.screen.simulation.sent, self._handed_over)
        partitions = _usable_partitions(self.settings, self.plan)
        run(self.plan, partitions, self.settings.kafka.bootstrap_servers, observer, self.halt)

    def _handed_over(self, arrival_ms: int) -> None:
        self.live_from_ms = arrival_ms

    def _simulating(self) -> bool:
        return any(thread.name == "simulator" and thread.is_alive() for thread in self.threads)

    def _keep_picture(self) -> None:
        while not self.halt.wait(_PICTURE_EVERY_S):
            self.screen.picture = picture(self.stack)

    def _in_background(self, work: Any, name: str) -> None:
        def guarded() -> None:
            try:
                work()
            except BaseException as failure:  # shown by the main thread, which ends the demo
                self.failure = self.failure or failure

        thread = threading.Thread(target=guarded, name=name, daemon=True)
        self.threads.append(thread)
        thread.start()

    # ---- what people see

    def _say(self, sentence: str) -> None:
        self.screen.message = sentence

    @contextmanager
    def _shown(self) -> Iterator[None]:
        """Redraw the screen four times a second; without a terminal print a line every few seconds."""
        if not self.console.is_terminal:
            self._in_background(self._print_lines, "lines")
            yield
            return
        with Live(console=self.console, get_renderable=self._rendered, refresh_per_second=4, transient=False):
            yield

    def _rendered(self) -> Any:
        self.screen.now_s = time.monotonic()
        return self.screen.render(self.console.height)

    def _print_lines(self) -> None:
        while True:
            self.screen.now_s = time.monotonic()
            self.console.print(self.screen.line(), soft_wrap=True, markup=False)
            if self.halt.wait(_LINE_EVERY_S):
                return


@retry(
    retry=retry_if_exception_type(KafkaException),
    stop=stop_after_delay(_ELECTION_LIMIT_S),
    wait=wait_fixed(0.2),
    reraise=True,
)
def _usable_partitions(settings: Settings, plan: Plan) -> dict[str, int]:
    """Return the partitions of the raw topics; those just created may still be choosing their leader."""
    return raw_partitions(settings, plan)


class _Interrupts:
    """SIGINT, SIGTERM and SIGHUP raise `InterruptedDemo`, until they are ignored."""

    numbers: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def __init__(self) -> None:
        self.kept = {number: signal.signal(number, self._interrupt) for number in self.numbers}

    def _interrupt(self, number: int, frame: object) -> None:
        raise InterruptedDemo(signal.Signals(number).name)

    def ignore(self) -> None:
        """Let nothing interrupt the stopping."""
        for number in self.numbers:
            signal.signal(number, signal.SIG_IGN)

    def restore(self) -> None:
        """Put the old handlers back."""
        for number, handler in self.kept.items():
            signal.signal(number, handler)


@contextmanager
def _signals_interrupt() -> Iterator[_Interrupts]:
    interrupts = _Interrupts()
    try:
        yield interrupts
    finally:
        interrupts.restore()


@contextmanager
def _only_one(data_dir: Path) -> Iterator[None]:
    """Hold the demo's lock; whoever has it may stop what an earlier demo left behind."""
    data_dir.mkdir(parents=True, exist_ok=True)
    with (data_dir / "demo.mutex").open("w") as mutex:
        try:
            fcntl.flock(mutex, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as busy:
            message = (
                f"A demo is running in {data_dir} already: end it with Ctrl-C, or set KAPPA_DATA_DIR and other ports."
            )
            raise LocalStackError(message) from busy
        yield
