"""The section of the report about synthetic series and injected faults."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

import numpy as np
from matplotlib.figure import Figure

from apps.evaluate import disturbances, plots, synthetic
from apps.evaluate.disturbances import Disturbed
from apps.evaluate.flaps import HEIGHT, LENGTH, METRICS, FlapOutcome, inject, judge_flaps
from apps.evaluate.interface import Detector
from apps.evaluate.recordings import Fleet
from apps.evaluate.report import Line, Plot, Section, Table
from apps.evaluate.synthetic import FAMILIES, LEVELS, FalseAlarms

Result = TypeVar("Result")

_TEXT: Final = f"""
Windows of 5 minutes. *Clean*: 300 series of each kind over 11 days, the first day not counted; the share of windows
with p at or below a level over that level (1 is nominal), and alarms at the default level. *Spikes* of 5, 8 or 20
deviations and *shifts*: 2,000 series of independent normal noise after two quiet days; adopted means that the series'
regime changes within 12 windows of the shift's begin or of the spike's end. *Flaps*: one of {METRICS} metrics of a
router jumps by {HEIGHT:.0f} deviations of the whole recording for {LENGTH} windows; its resource must alarm by the
window after, at the evidence that 1 % of clean windows reach.
"""


@dataclass(frozen=True)
class Made:
    """What one detector does on series made here; `flaps` is None without the Cisco data."""

    clean: Mapping[str, FalseAlarms]
    spikes: Mapping[int, Disturbed]
    shifts: Mapping[str, Disturbed]
    resource_level: float
    flaps: FlapOutcome | None


def measure(detector: Detector, fleet: Fleet | None, resource_level: float, advance: Callable[[], None]) -> Made:
    """Run a detector over everything; `advance` is called after each of `steps(fleet)` parts."""

    def told(value: Result) -> Result:
        advance()
        return value

    return Made(
        {name: told(synthetic.false_alarms(detector, name)) for name in FAMILIES},
        {length: told(disturbances.spike(detector, length)) for length in disturbances.SPIKES},
        {name: told(make(detector)) for name, make in disturbances.SHIFTS.items()},
        resource_level,
        None if fleet is None else told(_flaps(detector, fleet, resource_level)),
    )


def steps(fleet: Fleet | None) -> int:
    """Return how many parts `measure` has."""
    return len(FAMILIES) + len(disturbances.SPIKES) + len(disturbances.SHIFTS) + (fleet is not None)


def _flaps(detector: Detector, fleet: Fleet, level: float) -> FlapOutcome:
    flaps = inject(fleet)
    scores = detector.detect([flap.recording for flap in flaps])
    return judge_flaps(fleet, flaps, [score.resource for score in scores], level)


def synthetic_section(found: Mapping[str, Made]) -> Section:
    """Report the synthetic series."""
    shown = {
        f"{name}, p <= {level:g}": [made.clean[family].ratio[level] for family in FAMILIES]
        for name, made in found.items()
        for level in LEVELS
        if np.isfinite(made.clean["iid"].ratio[level])
    }
    return Section(
        "Synthetic series and injected faults",
        _TEXT,
        tuple(table for name, made in found.items() for table in (_clean(name, made), _disturbed(name, made))),
        (
            Plot(
                "clean",
                "False-alarm ratio by kind; within a factor of 2 is shaded",
                lambda: plots.ratios(list(FAMILIES), shown),
            ),
        ),
        _summary(found),
    )


def _picture(shown: Mapping[str, list[float]]) -> Figure:
    return plots.ratios(list(FAMILIES), shown)


def _clean(name: str, made: Made) -> Table:
    rows = tuple(
        (family, *(f"{found.ratio[level]:.2f}" for level in LEVELS), f"{found.per_day:.3f}")
        for family, found in made.clean.items()
    )
    columns = ("kind", *(f"p <= {level:g}: observed / nominal" for level in LEVELS), "alarms per series-day")
    return Table(f"{name}: clean series", columns, rows)


def _disturbed(name: str, made: Made) -> Table:
    entries = {f"spike of {length}": found for length, found in made.spikes.items()} | dict(made.shifts)
    rows = tuple(
        (
            what,
            _adopted(found),
            f"{found.alarmed / found.series:.1%}",
            f"{found.mean_alarms:.2f}",
            f"{found.at_most_ten:.1%}",
        )
        for what, found in entries.items()
    )
    if made.flaps is not None:
        flaps = made.flaps
        false = f"{flaps.false_per_hour:.2f} false per resource-hour"
        rows += ((f"flap ({flaps.injected} resources)", "", f"{flaps.alarmed / flaps.injected:.1%}", false, ""),)
    columns = ("disturbance", "adopted", "alarmed within 12 windows", "alarms within a day", "at most ten of them")
    return Table(f"{name}: disturbed series", columns, rows)


def _adopted(found: Disturbed) -> str:
    return "-" if found.adopted is None else f"{found.adopted} of {found.series}"


def _summary(found: Mapping[str, Made]) -> tuple[Line, ...]:
    return (
        Line("clean series: worst factor from nominal at 1e-3, 1e-4", "2", "1.5", _each(found, _worst)),
        Line("spikes of 1 / 3 / 5 windows adopted", "0 of 2000", "", _each(found, _spikes)),
        Line("shifts of 3 / 5 / 8 deviations, deviation x 3: adopted", "95 %", "", _each(found, _shifts)),
        Line("the same: share with at most 10 alarms", "100 %", "", _each(found, _few)),
        Line("flaps: resource alarmed (false alarms per resource-hour)", "90 %", "95 %", _each(found, _flapped)),
    )


def _each(found: Mapping[str, Made], cell: Callable[[Made], str]) -> dict[str, str]:
    return {name: cell(made) for name, made in found.items()}


def _worst(made: Made) -> str:
    factors = []
    for level in LEVELS:
        ratios = np.array([entry.ratio[level] for entry in made.clean.values()])
        with np.errstate(divide="ignore"):
            factors.append(float(np.maximum(ratios, 1 / ratios).max()))
    return ", ".join("-" if np.isnan(factor) else f"{factor:.2f}" for factor in factors)


def _spikes(made: Made) -> str:
    return " / ".join("-" if entry.adopted is None else str(entry.adopted) for entry in made.spikes.values())


def _wanted_shifts(made: Made) -> list[Disturbed]:
    return [entry for name, entry in made.shifts.items() if name != "variance x 3"]


def _shifts(made: Made) -> str:
    return " / ".join(
        "-" if entry.adopted is None else f"{entry.adopted / entry.series:.1%}" for entry in _wanted_shifts(made)
    )


def _few(made: Made) -> str:
    return " / ".join(f"{entry.at_most_ten:.1%}" for entry in _wanted_shifts(made))


def _flapped(made: Made) -> str:
    if made.flaps is None:
        return ""
    return f"{made.flaps.alarmed / made.flaps.injected:.1%} ({made.flaps.false_per_hour:.2f})"
