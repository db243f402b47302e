"""The section of the report about the Cisco telemetry."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

from apps.evaluate import plots
from apps.evaluate.judgement import CISCO_K, CiscoJudgement, judge_cisco
from apps.evaluate.recordings import Fleet
from apps.evaluate.report import Line, Plot, Section, Table
from apps.evaluate.section import Found, Levels, first_of

_CISCO_TEXT: Final = """
The rules of the data's authors (K consecutive samples of a router, K routers in one 5 s slot) on each router's
evidence: the mean over its metrics that have ever changed of max(surprise - 2, 0). The threshold is not chosen on the
labels: it is what 1 % of the windows of clean synthetic resources reach, per detector. *To slot* is the delay by the
authors' rule, *to sample* until the sample that made the slot alarm. *Place*: of the fault's routers among all
eleven, by the highest evidence since the fault began, when two routers alarm together, per fault; and by the end of
the fault.
*Early alarms*: of all routers before the first event, at most one per router and 300 s; the authors' rule does not
count them.
"""


def cisco_section(name: str, fleet: Fleet, found: Found, thresholds: Levels) -> Section:
    """Report one of the Cisco data sets."""
    judged = {
        detector: judge_cisco(fleet, [score.resource for score in scores], thresholds[detector])
        for detector, scores in found.items()
    }
    first = first_of(found)
    evidence = [score.resource for score in found[first]]
    return Section(
        f"Cisco telemetry, {name}",
        _CISCO_TEXT,
        (_spatial(judged), _temporal(judged)),
        (
            Plot(
                f"cisco-{name}",
                f"{first}: evidence of each router (symmetric logarithmic axis), threshold dotted; faults grey, the "
                "router's own red",
                lambda: plots.fleet(fleet, evidence, thresholds[first]),
            ),
        ),
        _summary(name, judged),
    )


def _spatial(judged: Mapping[str, CiscoJudgement]) -> Table:
    rows = tuple(
        (
            f"{name}, K={k}",
            f"{entry.spatial[k].precision:.3f}",
            f"{entry.spatial[k].recall:.3f}",
            _seconds(entry.spatial[k].delay_s),
            _seconds(entry.spatial[k].seen_s),
            _places(entry.places_at_alarm) if k == 2 else "",
            _places(entry.places) if k == 2 else "",
        )
        for name, entry in judged.items()
        for k in CISCO_K
    )
    columns = ("spatial", "precision", "recall", "to slot, s", "to sample, s", "place at the alarm", "place at the end")
    return Table("K routers in one slot", columns, rows)


def _temporal(judged: Mapping[str, CiscoJudgement]) -> Table:
    rows = tuple(
        (
            f"{name}, K={k}",
            f"{entry.temporal[k].precision:.3f}",
            f"{entry.temporal[k].recall:.3f}",
            f"{entry.temporal[k].f1:.3f}",
            _seconds(entry.temporal[k].delay_s),
            str(entry.temporal[k].early),
            f"{entry.threshold:.3g}",
        )
        for name, entry in judged.items()
        for k in CISCO_K
    )
    columns = ("temporal", "precision", "recall", "mean F1 per router", "delay, s", "early alarms", "threshold")
    return Table("K consecutive samples of a router", columns, rows)


def _seconds(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.1f}"


def _places(places: Sequence[int | None]) -> str:
    return ", ".join("-" if place is None else str(place) for place in places)


def _summary(data_set: str, judged: Mapping[str, CiscoJudgement]) -> tuple[Line, ...]:
    spatial = {name: entry.spatial[2] for name, entry in judged.items()}
    temporal = {name: entry.temporal[2] for name, entry in judged.items()}
    return (
        Line(
            f"{data_set}, spatial K=2: precision, recall, mean delay",
            "1, 1, 4 s",
            "",
            {
                name: f"{one.precision:.3f}, {one.recall:.3f}, {_seconds(one.delay_s)} s"
                for name, one in spatial.items()
            },
        ),
        Line(
            f"{data_set}, place of the affected router at the alarm, per fault",
            "",
            "1 or 2",
            {name: _places(entry.places_at_alarm) for name, entry in judged.items()},
        ),
        Line(
            f"{data_set}, temporal K=2: mean F1 per router",
            "0.97",
            "0.985",
            {name: f"{one.f1:.3f}" for name, one in temporal.items()},
        ),
    )
