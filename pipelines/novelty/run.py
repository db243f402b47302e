"""One run: consecutive closed windows of one bucket, scored, learned and rolled up at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from models.interface import Block, Floats, Likelihood, Verdicts
from models.reporting import judge_then_learn
from models.rollup import calibrate, combine, score_0_100
from models.series import no_verdicts, score_then_learn
from pipelines.novelty.directory import Attendance
from pipelines.novelty.observations import (
    Observations,
    RecordTable,
    as_amounts,
    no_longer_counts,
    observe,
    silent_logs,
)
from pipelines.novelty.packing import Integers, Marker
from pipelines.novelty.reports import DIRECTIONS, HIGH, LOW, NEW, ResourceColumns, SeriesColumns
from pipelines.novelty.rules import Lessons, RunRules, holds, lessons, skipped_results
from pipelines.novelty.state import REFUSED, BucketState
from pipelines.novelty.templates import NewTemplates, judge_new_templates
from pipelines.parameters import NoveltyParameters

_MS_PER_S: Final = 1000


@dataclass(frozen=True)
class Run:
    """Consecutive closed windows of one bucket on their way through the fold."""

    state: BucketState
    table: RecordTable
    windows: list[Marker]
    attendance: Attendance
    parameters: NoveltyParameters

    @cached_property
    def ends_ms(self) -> Integers:
        """End of each window."""
        return np.array([window.end_ms for window in self.windows])

    @property
    def window_s(self) -> float:
        """Length of a window."""
        return (self.windows[0].end_ms - self.windows[0].start_ms) / _MS_PER_S

    @cached_property
    def reported(self) -> NDArray[np.bool_]:
        """Which resource reported in which window, shape (resources, windows)."""
        reported = np.zeros((len(self.state.names), len(self.windows)), dtype=np.bool_)
        reported[self.attendance.resource, self.attendance.window] = True
        return reported

    @cached_property
    def rules(self) -> RunRules:
        """The suppression rules of the run's windows."""
        here = self.attendance
        return RunRules(self.windows, here.rules, here.places, self.state.names, self.state.series.resource, here.names)

    def seen(self) -> Observations:
        """Return what the records say, in (row, window) order."""
        accepted = self.attendance.row != REFUSED
        window = np.repeat(self.attendance.window, self.attendance.counts)[accepted]
        values = self.table.values[self.attendance.value[accepted]]
        seen = observe(window, self.attendance.row[accepted], values, self.state.series, self.window_s)
        self.state.series.last_end_ms[seen.row] = self.ends_ms[seen.window]
        return seen

    def told(self, seen: Observations, turns: Integers) -> Observations:
        """Return what the models are told, in (window, row) order: counts turned into amounts, silent logs added."""
        series = self.state.series
        amounts = (series.likelihood[seen.row] == Likelihood.GAUGE) | (seen.window >= turns[seen.row])
        seen = as_amounts(seen, amounts, series)
        zeros = silent_logs(seen, self.reported, self.attendance.born, series, self.window_s)
        told = seen.take(seen.weight > 0).plus(zeros).ordered()
        series.observations += np.bincount(told.row, minlength=len(series))
        return told

    def score(self, told: Observations, turns: Integers) -> Verdicts:
        """Score, then learn; where a count turns out to be an amount, its model begins anew."""
        cuts = sorted({0, len(self.windows), *turns[turns < len(self.windows)].tolist()})
        taught = lessons(self.rules, told)
        blocks = self.blocks(told, taught)
        verdicts: list[Verdicts] = []
        for begin, end in pairwise(cuts):
            turned = np.flatnonzero(turns == begin)
            self.state.series.likelihood[turned] = Likelihood.GAUGE
            self.state.models.reset(turned, self.state.series.likelihood[turned])
            some = [block for block in blocks[begin:end] if len(block.rows)]
            if taught.doubtful:
                start = sum(len(block.rows) for block in blocks[:begin])
                verdicts += self._score_in_doubt(some, start, taught)
            else:
                verdicts += self._score(some)
        return _joined(verdicts)

    def blocks(self, told: Observations, taught: Lessons) -> list[Block]:
        """Return the windows of the run as the models take them."""
        bounds = pairwise(np.searchsorted(told.window, np.arange(len(self.windows) + 1)).tolist())
        return [
            Block(
                window.end_ms, told.row[low:high], told.value[low:high], told.weight[low:high],
                None if taught.learn is None else taught.learn[low:high],
            )
            for window, (low, high) in zip(self.windows, bounds, strict=True)
        ]  # fmt: skip

    def _score(self, blocks: Sequence[Block]) -> list[Verdicts]:
        return score_then_learn(self.state.models, blocks)

    def _score_in_doubt(self, blocks: Sequence[Block], start: int, taught: Lessons) -> list[Verdicts]:
        """Score window by window where rules say only after judging which values are learned."""
        verdicts: list[Verdicts] = []
        for block in blocks:
            verdicts += self._score([self._decided(block, start, taught)])
            start += len(block.rows)
        return verdicts

    def _decided(self, block: Block, start: int, taught: Lessons) -> Block:
        """Judge beforehand, on a copy of their models, the values in doubt; the first one stands at `start`."""
        learn = np.ones(len(block.rows), np.bool_) if block.learn is None else block.learn.copy()
        for rule, places in taught.doubtful:
            low, high = np.searchsorted(places, [start, start + len(block.rows)]).tolist()
            at = places[low:high] - start
            if len(at):
                expected, direction = self._foreseen(block, at)
                learn[at] &= ~holds(rule, block.value[at], expected, direction)
        return replace(block, learn=learn)

    def _foreseen(self, block: Block, at: Integers) -> tuple[Floats, NDArray[np.str_]]:
        """Return expectations and directions of some of a block's values; the models learn nothing."""
        kept = np.zeros(len(self.state.models), np.bool_)
        kept[block.rows[at]] = True
        alone = Block(block.end_ms, np.arange(len(at)), block.value[at], block.weight[at])
        (verdict,) = score_then_learn(self.state.models.keep(kept), [alone])
        return verdict.expected, np.where(verdict.direction < 0, DIRECTIONS[LOW], DIRECTIONS[HIGH])

    def remember(self) -> None:
        """Take over who reported, and move on to the last window."""
        resources = self.state.resources
        resources.windows += self.reported.sum(axis=1)
        resources.last_end_ms[self.attendance.resource] = self.ends_ms[self.attendance.window]
        self.state.end_ms = self.windows[-1].end_ms


@dataclass(frozen=True)
class Judged:
    """Verdicts of a run: resources in (window, name) order, each with its part of the series."""

    resources: ResourceColumns
    series: SeriesColumns


def judge(run: Run) -> Judged:
    """Fold the run: score and learn its series, combine them to resources, find the silent ones."""
    state = run.state
    state.grow_models()
    age = state.resources.windows[:, None] + np.cumsum(run.reported, axis=1)
    silent_log10_p = np.where(run.rules.silences(), np.nan, _silence(run)) if run.rules else _silence(run)
    seen = run.seen()
    turns = no_longer_counts(seen, state.series)
    told = run.told(seen, turns)
    verdicts = run.score(told, turns)
    new = judge_new_templates(state, told, run.attendance.born, len(run.windows), run.parameters.log_warmup_windows)
    order, window, resource, first, last = _by_resource(run, told, np.isfinite(silent_log10_p))
    silent = ~run.reported[resource, window]
    columns = _without_skipped(_columns(told, verdicts, new), run.rules, told).take(order)
    log10_p, share = _evidence(columns, first, last)
    log10_p = np.where(silent, silent_log10_p[resource, window], _calibrated(run, window, log10_p, ~silent))
    resources = ResourceColumns(
        window, resource, log10_p, score_0_100(log10_p), silent, age[resource, window], first, last
    )
    run.remember()
    return Judged(resources, columns.shared(share))


def _silence(run: Run) -> Floats:
    """Judge who did not report; NaN for those that reported or need not have, shape (resources, windows)."""
    log10_p = np.full(run.reported.shape, np.nan)
    for index, (window, known) in enumerate(zip(run.windows, run.attendance.known, strict=True)):
        log10_p[:known, index] = judge_then_learn(
            run.state.reporting, window.end_ms, run.reported[:known, index], run.parameters.silent_intervals
        )
    return log10_p


def _by_resource(
    run: Run, told: Observations, silent: NDArray[np.bool_]
) -> tuple[Integers, Integers, Integers, Integers, Integers]:
    """Bring observations into (window, resource name, row) order.

    Returns:
        That order; and for every resource judged in a window: window, resource, and where its observations begin and
        end in the order.
    """
    names = run.state.names
    by_name = np.array(sorted(range(len(names)), key=names.__getitem__), dtype=np.int64)
    rank = np.empty_like(by_name)
    rank[by_name] = np.arange(len(names))
    window, position = np.nonzero((run.reported | silent)[by_name].T)
    place = told.window * len(names) + rank[run.state.series.resource[told.row]]
    order = np.lexsort((told.row, place))
    key = window * len(names) + position
    first, last = (np.searchsorted(place[order], key, side) for side in ("left", "right"))
    return order, window, by_name[position], first, last


def _without_skipped(columns: SeriesColumns, rules: RunRules, told: Observations) -> SeriesColumns:
    """Mark what rules take out of the evidence; it scores nothing."""
    if not rules:
        return columns
    skipped = skipped_results(
        rules, told, columns.expected, lambda at: [DIRECTIONS[code] for code in columns.direction[at].tolist()]
    )
    return replace(columns, skipped=skipped, score=np.where(skipped > 0, 0.0, columns.score))


def _evidence(columns: SeriesColumns, first: Integers, last: Integers) -> tuple[Floats, Floats]:
    """Combine what counts to resources; return log10 p of each and every series' share of the evidence."""
    counts = columns.skipped == 0
    place = np.concatenate([[0], np.cumsum(counts)])
    share = np.zeros(len(counts))
    log10_p, share[counts] = combine(columns.log10_p[counts], place[first], place[last])
    return log10_p, share


def _calibrated(run: Run, window: Integers, log10_p: Floats, judged: NDArray[np.bool_]) -> Floats:
    """Calibrate window by window: each is judged by what was learned before it."""
    calibrated = np.zeros_like(log10_p)
    for begin, end in pairwise(np.searchsorted(window, np.arange(len(run.windows) + 1)).tolist()):
        part = slice(begin, end)
        at = np.flatnonzero(judged[part]) + begin
        calibrated[at] = calibrate(run.state.tails, log10_p[at])
    return calibrated


def _columns(told: Observations, verdicts: Verdicts, new: NewTemplates) -> SeriesColumns:
    """Return the verdicts as columns; new templates are judged by their own rule."""
    log10_p, direction = verdicts.log10_p.copy(), np.where(verdicts.direction < 0, LOW, HIGH).astype(np.int8)
    expected, lower, upper = verdicts.expected.copy(), verdicts.lower.copy(), verdicts.upper.copy()
    log10_p[new.at], direction[new.at] = new.log10_p, NEW
    for unknown in (expected, lower, upper):
        unknown[new.at] = np.nan
    return SeriesColumns(
        told.row, told.value, expected, lower, upper, log10_p, score_0_100(log10_p), direction,
        np.zeros_like(log10_p), verdicts.observations, verdicts.anomaly, verdicts.new_normal, verdicts.regime,
        verdicts.regime_windows, verdicts.sustained, np.zeros(len(log10_p), np.int32),
    )  # fmt: skip


def _joined(verdicts: Sequence[Verdicts]) -> Verdicts:
    """Return the verdicts of consecutive blocks as one."""
    parts = [no_verdicts(), *verdicts]
    return Verdicts(*(np.concatenate([getattr(part, item.name) for part in parts]) for item in fields(Verdicts)))
