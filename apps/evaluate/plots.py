"""The pictures of the report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from apps.evaluate import cisco, nab
from apps.evaluate.nab_rows import all_files, corpus
from apps.evaluate.recordings import Flags, Fleet, NabFile
from models.interface import Floats

_WIDTH: Final = 9.0
_MS_PER_DAY: Final = 86_400_000
_MINUTE_S: Final = 60.0
_FAULT: Final = "#f4c7c3"
_LEAST_SCORE: Final = -50.0


def _figure(rows: int, height: float) -> tuple[Figure, list[Axes]]:
    figure = Figure(figsize=(_WIDTH, height), layout="constrained")
    return figure, list(np.atleast_1d(figure.subplots(rows, 1)).tolist())


def nab_thresholds(files: Sequence[NabFile], scores: Sequence[Floats], level: float) -> Figure:
    """Draw the NAB score of each profile against the threshold."""
    figure, [axes] = _figure(1, 3.0)
    rows = corpus(files)
    lined, everything = rows.line_up(scores), all_files(rows)
    for profile in nab.PROFILES:
        thresholds, raws = nab.sweep(everything, lined, profile)
        shown = np.isfinite(thresholds) & (thresholds > 0)
        score = np.array([nab.normalised(raw, rows.spans, profile) for raw in raws[shown].tolist()])
        axes.plot(thresholds[shown], np.maximum(score, _LEAST_SCORE), linewidth=1, label=profile.name)
    axes.axvline(level, color="grey", linestyle=":", label="default level")
    axes.set(xlabel="threshold of the alarm score", ylabel="NAB score", ylim=(_LEAST_SCORE, 100), xlim=(0, 4 * level))
    axes.legend(loc="lower right")
    return figure


def nab_examples(files: Sequence[NabFile], scores: Sequence[Floats], level: float) -> Figure:
    """Draw the first labelled file of each category: value, labelled spans, alarms."""
    labelled = [place for place, file in enumerate(files) if file.anomalies]
    first = {files[place].category: place for place in reversed(labelled)}
    figure, all_axes = _figure(len(first), 1.5 * len(first))
    for axes, place in zip(all_axes, sorted(first.values()), strict=True):
        _example(axes, files[place], scores[place] >= level)
    all_axes[-1].set_xlabel("days")
    return figure


def _example(axes: Axes, file: NabFile, alarms: Flags) -> None:
    recording = file.recording
    days = (recording.end_ms - recording.end_ms[0]) / _MS_PER_DAY
    for first, last in file.anomalies:
        axes.axvspan(days[file.window_of_row[first]], days[file.window_of_row[last]], color=_FAULT)
    axes.plot(days, recording.values[:, 0], linewidth=0.5)
    axes.plot(days[alarms], recording.values[alarms, 0], "r^", markersize=4)
    axes.set_title(recording.resource, loc="left", fontsize=8)


def bars(groups: Sequence[str], values: Mapping[str, Sequence[float]], ylabel: str) -> Figure:
    """Draw one bar per group and detector."""
    figure, [axes] = _figure(1, 2.8)
    width = 0.8 / max(len(values), 1)
    for place, (name, heights) in enumerate(values.items()):
        axes.bar(np.arange(len(groups)) + place * width, heights, width, label=name)
    axes.set_xticks(np.arange(len(groups)) + 0.4 - width / 2, groups)
    axes.set_ylabel(ylabel)
    axes.legend()
    return figure


def curves(lines: Mapping[str, tuple[Floats, Floats]], marks: Mapping[str, float], labels: tuple[str, str]) -> Figure:
    """Draw lines over a common axis and vertical marks; `labels` of both axes."""
    figure, [axes] = _figure(1, 2.8)
    for name, (x, y) in lines.items():
        axes.plot(x, y, linewidth=1, label=name)
    for number, (name, mark) in enumerate(marks.items()):
        axes.axvline(mark, color=f"C{number}", linestyle=":", label=name)
    axes.set(xlabel=labels[0], ylabel=labels[1])
    axes.legend()
    return figure


def fleet(recordings: Fleet, scores: Sequence[Floats], threshold: float) -> Figure:
    """Draw each router's evidence over time and the faults' spans."""
    figure, all_axes = _figure(len(recordings.routers), 0.7 * len(recordings.routers))
    origin_s = min(float(router.end_ms[0]) for router in recordings.routers) / 1000
    for axes, router, score in zip(all_axes, recordings.routers, scores, strict=True):
        for group in cisco.faults(recordings.events):
            own = any(event.router == router.resource for event in group)
            start_s, end_s = min(event.start_s for event in group), max(event.end_s for event in group)
            span = ((start_s - origin_s) / _MINUTE_S, (end_s - origin_s) / _MINUTE_S)
            axes.axvspan(*span, color=_FAULT if own else "#eeeeee")
        axes.plot((router.end_ms / 1000 - origin_s) / _MINUTE_S, score, linewidth=0.7)
        axes.axhline(threshold, color="grey", linestyle=":", linewidth=0.7)
        axes.set_yscale("symlog", linthresh=threshold)
        axes.set_ylim(0, None)
        axes.set_ylabel(router.resource, rotation=0, ha="right")
        axes.set_yticks([])
    all_axes[-1].set_xlabel("minutes")
    return figure


def ratios(families: Sequence[str], found: Mapping[str, Sequence[float]]) -> Figure:
    """Draw false-alarm ratios on a logarithmic axis, the band of a factor of two shaded."""
    figure, [axes] = _figure(1, 2.8)
    axes.axhspan(0.5, 2.0, color="#e6f4ea")
    axes.axhline(1.0, color="grey", linewidth=0.7)
    for name, values in found.items():
        axes.plot(range(len(families)), values, "o", markersize=4, label=name)
    axes.set_yscale("log")
    axes.set_xticks(range(len(families)), families)
    axes.set_ylabel("observed / nominal")
    axes.legend()
    return figure
