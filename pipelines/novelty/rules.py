"""Suppression rules in a run: which results are skipped, and which values the models are not taught.

A rule concerns the values within its scope (patterns) and its calendar (windows that overlap). Whether a value meets
its other conditions - direction, deviation from the expectation - is known once the value is judged; for what is not to
be learned it must be known before, so such values are judged beforehand on a copy of their models.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from models.interface import Floats
from pipelines.novelty.observations import Observations
from pipelines.novelty.packing import Integers, Marker, Place
from topics.controls import DAY_MINUTES, DAYS, WEEK_MINUTES, Interval, Rule, Weekly
from topics.records import Direction

Mask = NDArray[np.bool_]

_MINUTE_MS: Final = 60_000
#: The epoch began on a Thursday.
_FIRST_MONDAY_MINUTES: Final = 4 * DAY_MINUTES
#: A rule about silence says nothing about values.
_SILENT: Final = "silent"


def matcher(pattern: str | None) -> Callable[[str | None], bool]:
    """Return the test of a pattern: `*` stands for anything, no pattern takes any name, and an unknown one too."""
    if pattern is None:
        return lambda name: True
    expression = re.compile(".*".join(map(re.escape, pattern.split("*"))), re.DOTALL)
    return lambda name: name is not None and expression.fullmatch(name) is not None


# ---- calendars -------------------------------------------------------------------------------------------------------


def within_calendar(rule: Rule, starts_ms: Integers, ends_ms: Integers) -> Mask:
    """Tell which windows overlap the calendar of a rule; all of them if it has none."""
    inside = np.full(len(starts_ms), not (rule.intervals or rule.weekly))
    for interval in rule.intervals:
        inside |= _overlaps(interval, starts_ms, ends_ms)
    for weekly in rule.weekly:
        inside |= _recurs(weekly, starts_ms, ends_ms)
    return inside


def _overlaps(interval: Interval, starts_ms: Integers, ends_ms: Integers) -> Mask:
    return (starts_ms < interval.end_ms) & (ends_ms > interval.start_ms)


def _recurs(weekly: Weekly, starts_ms: Integers, ends_ms: Integers) -> Mask:
    week_ms = WEEK_MINUTES * _MINUTE_MS
    inside = np.zeros(len(starts_ms), dtype=np.bool_)
    for day in weekly.days:
        begins = _FIRST_MONDAY_MINUTES + DAYS.index(day) * DAY_MINUTES + weekly.start_minute
        since_ms = (starts_ms - begins * _MINUTE_MS) % week_ms
        inside |= since_ms < weekly.duration_minutes * _MINUTE_MS
        inside |= since_ms + (ends_ms - starts_ms) > week_ms
    return inside


# ---- values ----------------------------------------------------------------------------------------------------------


def about_values(rule: Rule) -> bool:
    """Tell whether a rule depends on how a value was judged."""
    deviations = (rule.minimal_deviation, rule.minimal_relative_deviation)
    return rule.direction is not None or any(limit is not None for limit in deviations)


def holds(rule: Rule, actual: Floats, expected: Floats, direction: NDArray[np.str_]) -> Mask:
    """Tell which judged values meet a rule's direction and deviations; without an expectation there is no deviation."""
    met = np.ones(len(actual), dtype=np.bool_)
    if rule.direction is not None:
        met &= direction == rule.direction
    deviation = np.abs(actual - expected)
    if rule.minimal_deviation is not None:
        met &= deviation < rule.minimal_deviation
    if rule.minimal_relative_deviation is not None:
        met &= deviation < rule.minimal_relative_deviation * np.abs(expected)
    return met


def about_silence(rule: Rule) -> bool:
    """Tell whether a rule takes away the verdict that a resource is silent: silence has neither metric nor value."""
    values = (rule.metric, rule.minimal_deviation, rule.minimal_relative_deviation)
    return rule.skip_result and rule.direction in (None, _SILENT) and all(part is None for part in values)


# ---- runs ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RunRules:
    """The rules of a run and what they are about.

    Attributes:
        windows: Windows of the run.
        rules: Rules that hold in each window, in order of their ids.
        places: Where each resource known at each window belongs.
        resources: Names of the resources.
        resource: Resource of each series, shape (rows,).
        names: Metric first, of each series.
    """

    windows: Sequence[Marker]
    rules: Sequence[tuple[Rule, ...]]
    places: Sequence[Sequence[Place]]
    resources: Sequence[str]
    resource: NDArray[np.int32]
    names: Sequence[Sequence[Any]]

    def __bool__(self) -> bool:
        return any(self.rules)

    @cached_property
    def ids(self) -> tuple[str | None, ...]:
        """Ids of the rules, behind a None."""
        return (None, *sorted({rule.id for rules in self.rules for rule in rules}))

    def concerned(self, told: Observations, wanted: Callable[[Rule], bool]) -> Iterator[tuple[Rule, Integers]]:
        """Yield rules with the places of the observations within their scope and calendar.

        Args:
            told: Observations of the run, in window order.
            wanted: Which rules.
        """
        for begin, end, rules, places in self._spells():
            low, high = np.searchsorted(told.window, [begin, end]).tolist()
            for rule in (rule for rule in rules if rule.direction != _SILENT and wanted(rule)):
                inside = self._series_in_scope(rule, places)[told.row[low:high]]
                inside &= self._in_calendar(rule)[told.window[low:high]]
                if inside.any():
                    yield rule, np.flatnonzero(inside) + low

    def silences(self) -> Mask:
        """Tell where a silence is not to be reported, shape (resources, windows)."""
        skipped = np.zeros((len(self.resources), len(self.windows)), dtype=np.bool_)
        for begin, end, rules, places in self._spells():
            for rule in filter(about_silence, rules):
                calendar = self._in_calendar(rule)[begin:end]
                skipped[:, begin:end] |= self._resources_in_scope(rule, places)[:, None] & calendar
        return skipped

    def _spells(self) -> Iterator[tuple[int, int, tuple[Rule, ...], Sequence[Place]]]:
        """Yield stretches of windows in which the same rules hold and everything stays in its place."""
        numbered = groupby(range(len(self.windows)), lambda at: (id(self.rules[at]), id(self.places[at])))
        for windows in (list(at) for _, at in numbered):
            if self.rules[windows[0]]:
                yield windows[0], windows[-1] + 1, self.rules[windows[0]], self.places[windows[0]]

    def _in_calendar(self, rule: Rule) -> Mask:
        bounds = np.array([(window.start_ms, window.end_ms) for window in self.windows])
        return within_calendar(rule, bounds[:, 0], bounds[:, 1])

    def _resources_in_scope(self, rule: Rule, places: Sequence[Place]) -> Mask:
        resource, service, region = map(matcher, (rule.resource, rule.service, rule.region))
        inside = np.zeros(len(self.resources), dtype=np.bool_)
        inside[: len(places)] = [
            resource(name) and service(place.service) and region(place.region)
            for name, place in zip(self.resources, places, strict=False)
        ]
        return inside

    def _series_in_scope(self, rule: Rule, places: Sequence[Place]) -> Mask:
        inside = self._resources_in_scope(rule, places)[self.resource]
        if rule.metric is not None:
            inside &= np.array(list(map(matcher(rule.metric), self._metrics)), dtype=np.bool_)[self._metric]
        return inside

    @cached_property
    def _metrics(self) -> list[str]:
        return list(dict.fromkeys(name[0] for name in self.names))

    @cached_property
    def _metric(self) -> Integers:
        number = {metric: at for at, metric in enumerate(self._metrics)}
        return np.array([number[name[0]] for name in self.names], dtype=np.int64)


def skipped_results(
    rules: RunRules, told: Observations, expected: Floats, direction: Callable[[Integers], Sequence[Direction]]
) -> NDArray[np.int32]:
    """Return, for every judged value, which rule takes it out of its resource's evidence; 0 where none does.

    Args:
        rules: Rules of the run.
        told: Observations of the run.
        expected: What the models expected, NaN while nothing is known.
        direction: Returns the directions of the values at some places.

    Returns:
        Index into `rules.ids`, shape (k,); of several rules the first by id.
    """
    skipped = np.zeros(len(told.row), dtype=np.int32)
    number = {name: at for at, name in enumerate(rules.ids)}
    for rule, at in rules.concerned(told, lambda rule: rule.skip_result):
        free = at[skipped[at] == 0]
        met = holds(rule, told.value[free], expected[free], np.array(direction(free), dtype=np.str_))
        skipped[free[met]] = number[rule.id]
    return skipped


@dataclass(frozen=True)
class Lessons:
    """What the models are taught in a run.

    Attributes:
        learn: Which values, as far as that does not depend on how they are judged; None for all, shape (k,).
        doubtful: Rules that decide once a value is judged, with the places they concern.
    """

    learn: Mask | None
    doubtful: list[tuple[Rule, Integers]]


def lessons(rules: RunRules, told: Observations) -> Lessons:
    """Return what the models are taught of the observations."""
    learn, doubtful = np.ones(len(told.row), dtype=np.bool_), []
    for rule, at in rules.concerned(told, lambda rule: rule.skip_learning):
        if about_values(rule):
            doubtful.append((rule, at))
        else:
            learn[at] = False
    return Lessons(None if learn.all() else learn, doubtful)
