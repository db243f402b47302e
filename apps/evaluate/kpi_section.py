"""The section of the report about the KPIs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from matplotlib.figure import Figure

from apps.evaluate import delay_f1, plots
from apps.evaluate.interface import Scores
from apps.evaluate.judgement import KpiJudgement, judge_kpi
from apps.evaluate.recordings import Kpi
from apps.evaluate.report import Line, Plot, Section, Table
from apps.evaluate.section import Found, Levels, first_of, one_series

#: Thresholds at which the plot is drawn.
_CURVE_POINTS: Final = 60

_KPI_TEXT: Final = f"""
F1 with a delay of at most {delay_f1.DELAY} windows on the test halves, rows of all KPIs added up, one threshold for
all. *Fitted on train*: the threshold that is best on the train halves; it counts. *Oracle*: the best for the test
halves. *Default*: the detector's own level. A found segment counts with all its rows, so the point-wise surprise
suits this rule; the alarm, once per episode, is shown as well.
"""


def kpi_section(kpis: Sequence[Kpi], found: Found, levels: Levels) -> Section:
    """Report the KPIs."""
    judged = {
        (name, output): judge_kpi(kpis, one_series(scores, output), levels[name])
        for name, scores in found.items()
        for output in ("surprise", "alarm")
    }
    first = first_of(found)
    best = {name: f"{judged[name, 'surprise'].honest.f1:.3f} ({judged[name, 'alarm'].honest.f1:.3f})" for name in found}
    return Section(
        "KPI",
        _KPI_TEXT + f"\n{len(kpis)} KPIs.",
        (_kpi_scores(judged),),
        (
            Plot(
                "kpi",
                f"{first}: F1 against threshold, test halves; marks: thresholds from the train halves",
                lambda: _kpi_curves(kpis, found[first], {key: judged[first, key] for key in ("surprise", "alarm")}),
            ),
        ),
        (Line("KPI F1 within 7 windows, threshold from the train halves: surprise (alarm)", "0.82", "0.86", best),),
    )


def _kpi_scores(judged: Mapping[tuple[str, str], KpiJudgement]) -> Table:
    rows = tuple(
        (
            f"{name}, {output}",
            f"{entry.honest.f1:.3f}",
            f"{entry.honest.precision:.3f}",
            f"{entry.honest.recall:.3f}",
            f"{entry.oracle.f1:.3f}",
            f"{entry.at_level.f1:.3f}",
        )
        for (name, output), entry in judged.items()
    )
    columns = ("detector, output", "F1, fitted on train", "precision", "recall", "F1, oracle", "F1, default")
    return Table("Delay-limited F1", columns, rows)


def _kpi_curves(kpis: Sequence[Kpi], scores: Sequence[Scores], judged: Mapping[str, KpiJudgement]) -> Figure:
    lines = {}
    for output, entry in judged.items():
        test = delay_f1.pool(
            [kpi.label[kpi.train :] for kpi in kpis],
            [score[kpi.train :] for kpi, score in zip(kpis, one_series(scores, output), strict=True)],
        )
        thresholds = np.linspace(0.1, 3 * entry.honest.threshold, _CURVE_POINTS)
        lines[output] = (thresholds, np.array([delay_f1.outcome(test, at).f1 for at in thresholds.tolist()]))
    marks = {f"{output}, from train": entry.honest.threshold for output, entry in judged.items()}
    return plots.curves(lines, marks, ("threshold", "F1"))
