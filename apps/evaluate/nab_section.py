"""The section of the report about NAB."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from apps.evaluate import plots, published
from apps.evaluate.judgement import NabJudgement, judge_nab
from apps.evaluate.recordings import NabFile
from apps.evaluate.report import Line, Plot, Section, Table
from apps.evaluate.section import Found, Levels, first_of, one_series, three

_NAB_TEXT: Final = """
The score of the Numenta Anomaly Benchmark from its formula, on the alarm output. *Refitted*: the threshold that is
best for the labels scored, one for all files, as the benchmark prescribes. *Held out*: each category is scored at the
threshold that is best for the other categories; mean over the categories. *Default*: the detector's own level, not
fitted.
"""


def nab_section(files: Sequence[NabFile], found: Found, levels: Levels) -> Section:
    """Report NAB."""
    judged = {name: judge_nab(files, one_series(scores, "alarm"), levels[name]) for name, scores in found.items()}
    first = first_of(found)
    alarms = one_series(found[first], "alarm")
    return Section(
        "NAB",
        _NAB_TEXT + f"\n{len(files)} files, {sum(len(file.anomalies) for file in files)} labelled windows.",
        (_nab_scores(files, judged), _nab_categories(first, judged[first])),
        (
            Plot(
                "nab-threshold",
                f"{first}: score against threshold",
                lambda: plots.nab_thresholds(files, alarms, levels[first]),
            ),
            Plot(
                "nab-examples",
                f"{first}: the first labelled file of each category; windows shaded, alarms at the default level",
                lambda: plots.nab_examples(files, alarms, levels[first]),
            ),
        ),
        _nab_summary(judged),
    )


def _nab_scores(files: Sequence[NabFile], judged: Mapping[str, Mapping[str, NabJudgement]]) -> Table:
    rows = []
    for name, profiles in judged.items():
        standard = profiles["standard"].refitted
        rows.append(
            (
                name,
                three([entry.refitted.score for entry in profiles.values()]),
                three([entry.honest.mean for entry in profiles.values()]),
                three([entry.at_level.score for entry in profiles.values()]),
                f"{standard.hits}, {standard.false}",
            )
        )
    if len(files) == published.NAB_FILES and sum(len(file.anomalies) for file in files) == published.NAB_SPANS:
        rows += [(f"{name} (published)", three(scores), "", "", "") for name, scores in published.NAB.items()]
    columns = ("standard / low FP / low FN", "refitted", "held out", "default", "windows hit, false rows (standard)")
    return Table("Scores", columns, tuple(rows))


def _nab_categories(name: str, profiles: Mapping[str, NabJudgement]) -> Table:
    standard = profiles["standard"]
    rows = tuple(
        (
            category,
            f"{fit.score:.1f}",
            f"{standard.honest.categories[category].score:.1f}",
            f"{standard.honest.categories[category].hits}, {standard.honest.categories[category].false}",
        )
        for category, fit in standard.categories.items()
    )
    columns = ("category", "at the common refitted threshold", "held out", "windows hit, false rows held out")
    return Table(f"{name} by category, standard profile", columns, rows)


def _nab_summary(judged: Mapping[str, Mapping[str, NabJudgement]]) -> tuple[Line, ...]:
    best = {name: [entry.refitted.score for entry in found.values()] for name, found in judged.items()}
    honest = {name: [entry.honest.mean for entry in found.values()] for name, found in judged.items()}
    level = {name: [entry.at_level.score for entry in found.values()] for name, found in judged.items()}
    drop = {name: f"{three(honest[name])} ({best[name][0] - honest[name][0]:+.1f})" for name in judged}
    lost = {name: f"{three(level[name])} ({best[name][0] - level[name][0]:+.1f})" for name in judged}
    return (
        Line(
            "NAB refitted: standard / low FP / low FN",
            "72 / 64 / 76",
            "77 / 72 / 82",
            {name: three(scores) for name, scores in best.items()},
        ),
        Line("NAB held out, mean of categories (drop)", "reported", "drop <= 7", drop),
        Line("NAB at the default level (drop)", "drop <= 3", "drop <= 1", lost),
    )
