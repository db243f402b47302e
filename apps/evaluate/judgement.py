"""Scores of a detector on each data set, put under that data set's rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from apps.evaluate import cisco, delay_f1, nab, vus
from apps.evaluate.cisco_fleet import Spatial, durations_s, first_places, spatial
from apps.evaluate.nab_rows import all_files, corpus
from apps.evaluate.recordings import Fleet, Kpi, Machine, NabFile
from models.interface import Floats

#: K of Cisco's rules that are reported.
CISCO_K: Final = (1, 2, 3)


@dataclass(frozen=True)
class NabJudgement:
    """One profile of NAB.

    Attributes:
        refitted: At the threshold that is best for these labels.
        honest: With the threshold of the other categories.
        at_level: At the level given, not fitted.
        categories: Each category at the refitted threshold.
    """

    refitted: nab.Fit
    honest: nab.LeaveOneOut
    at_level: nab.Fit
    categories: Mapping[str, nab.Fit]


def judge_nab(files: Sequence[NabFile], scores: Sequence[Floats], level: float) -> dict[str, NabJudgement]:
    """Return the judgement of each profile.

    Args:
        files: The files.
        scores: Alarm score of each file's windows.
        level: From which on the detector itself would alarm.
    """
    rows = corpus(files)
    lined = rows.line_up(scores)
    everything = all_files(rows)
    found = {}
    for profile in nab.PROFILES:
        best = nab.refitted(everything, lined, profile)
        found[profile.name] = NabJudgement(
            best,
            nab.leave_one_category_out(rows, lined, profile),
            nab.score_at(everything, lined, level, profile),
            nab.by_category(rows, lined, best.threshold, profile),
        )
    return found


def judge_smd(machines: Sequence[Machine], scores: Sequence[Floats]) -> dict[str, float]:
    """Return each machine's VUS-PR; `scores` of all its windows, of which those of the test part count."""
    return {
        machine.recording.resource: vus.vus_pr(
            machine.label, score[machine.train :], vus.period(machine.recording.values[machine.train :, 0])
        )
        for machine, score in zip(machines, scores, strict=True)
    }


@dataclass(frozen=True)
class KpiJudgement:
    """Outcome on the test halves: at the train halves' threshold, at the best for the test halves, at the level."""

    honest: delay_f1.Outcome
    oracle: delay_f1.Outcome
    at_level: delay_f1.Outcome


def judge_kpi(kpis: Sequence[Kpi], scores: Sequence[Floats], level: float) -> KpiJudgement:
    """Judge the alarm scores of all KPIs' windows."""
    train = delay_f1.pool(
        [kpi.label[: kpi.train] for kpi in kpis],
        [score[: kpi.train] for kpi, score in zip(kpis, scores, strict=True)],
    )
    test = delay_f1.pool(
        [kpi.label[kpi.train :] for kpi in kpis],
        [score[kpi.train :] for kpi, score in zip(kpis, scores, strict=True)],
    )
    threshold = delay_f1.fit(train).threshold
    return KpiJudgement(delay_f1.outcome(test, threshold), delay_f1.fit(test), delay_f1.outcome(test, level))


@dataclass(frozen=True)
class CiscoJudgement:
    """Outcome at one threshold.

    Attributes:
        threshold: From which on a router is anomalous.
        temporal: By K.
        spatial: By K.
        places_at_alarm: Per fault, the place of its routers among all when the fleet alarms with two routers, by their
            highest score since the fault began; None if it does not alarm.
        places: The same by the highest score during the whole fault.
    """

    threshold: float
    temporal: Mapping[int, cisco.Temporal]
    spatial: Mapping[int, Spatial]
    places_at_alarm: tuple[int | None, ...]
    places: tuple[int | None, ...]


def judge_cisco(fleet: Fleet, scores: Sequence[Floats], threshold: float) -> CiscoJudgement:
    """Judge the resource scores of all routers' windows at one threshold."""
    times = [router.end_ms / 1000 for router in fleet.routers]
    names = [router.resource for router in fleet.routers]
    samples = {
        name: cisco.Samples(time_s, np.nan_to_num(score, nan=-np.inf) >= threshold)
        for name, time_s, score in zip(names, times, scores, strict=True)
    }
    ranked = {name: (time_s, score) for name, time_s, score in zip(names, times, scores, strict=True)}
    together = {k: spatial(samples, fleet.events, k) for k in CISCO_K}
    seen_s = [fault.seen_s for fault in together[2].faults]
    return CiscoJudgement(
        threshold,
        {k: cisco.temporal(samples, fleet.events, k) for k in CISCO_K},
        together,
        tuple(first_places(ranked, fleet.events, seen_s)),
        tuple(first_places(ranked, fleet.events, durations_s(fleet.events))),
    )
