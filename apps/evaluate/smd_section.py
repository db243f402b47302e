"""The section of the report about SMD."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from apps.evaluate import plots, published
from apps.evaluate.datasets import SMD_MACHINES
from apps.evaluate.judgement import judge_smd
from apps.evaluate.recordings import Machine
from apps.evaluate.report import Line, Plot, Section, Table
from apps.evaluate.resources import SMOOTHING, smoothed
from apps.evaluate.section import Found

_SMD_TEXT: Final = f"""
VUS-PR by TSB-AD's rule on the test parts; the train parts are streamed before them. The resource's score is the mean
over the metrics that have ever changed of max(surprise - 2, 0), smoothed over {SMOOTHING} windows, the same for all
detectors (half-space trees have one score per resource, smoothed likewise). Published methods are offline.
"""


_BENCHMARK: Final = tuple(f"machine-{name}" for name in SMD_MACHINES)
_PUBLISHED: Final = {
    name: dict(zip((f"machine-{machine}" for machine in published.SMD_MACHINES), values, strict=True))
    for name, values in published.SMD.items()
}


def smd_section(machines: Sequence[Machine], found: Found) -> Section:
    """Report SMD."""
    judged = {name: judge_smd(machines, [smoothed(s.resource) for s in scores]) for name, scores in found.items()}
    names = [machine.recording.resource for machine in machines]
    four = [name for name in names if name in _BENCHMARK]
    heights = {name: [values[machine] for machine in names] for name, values in judged.items()}
    return Section(
        "SMD",
        _SMD_TEXT,
        (_table(names, four, judged | {f"{name} (published)": values for name, values in _PUBLISHED.items()}),),
        (Plot("smd", "VUS-PR by machine", lambda: plots.bars(names, heights, "VUS-PR")),),
        (_summary(names, four, judged),),
    )


def _table(names: Sequence[str], four: Sequence[str], values: Mapping[str, Mapping[str, float]]) -> Table:
    rows = [(name, *(f"{one[name]:.3f}" if name in one else "" for one in values.values())) for name in names]
    for title, group in ((f"mean of {len(four)}: {', '.join(four)}", four), ("mean of all", names)):
        rows.append((title, *(_mean(one, group) for one in values.values())))
    return Table("VUS-PR", ("machine", *values), tuple(rows))


def _mean(values: Mapping[str, float], names: Sequence[str]) -> str:
    known = names and all(name in values for name in names)
    return f"{np.mean([values[name] for name in names]):.3f}" if known else ""


def _summary(names: Sequence[str], four: Sequence[str], judged: Mapping[str, Mapping[str, float]]) -> Line:
    group = four if len(four) == len(_BENCHMARK) else names
    measure = f"SMD, mean VUS-PR of {', '.join(name.removeprefix('machine-') for name in group)}"
    return Line(measure, "0.58", "0.65", {name: _mean(values, group) for name, values in judged.items()})
