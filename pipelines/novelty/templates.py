"""Log templates never seen before, on resources that have logged long enough to have shown what they log.

Whether a window of a grown-up resource brings a new template is a Bernoulli draw whose rate is learned over the bucket:
of n such windows k brought one, so p_new = (k + 1/2) / (n + 1), the predictive of a Dirichlet prior with half a window
in each cell.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from models.interface import Floats
from pipelines.novelty.observations import Observations
from pipelines.novelty.packing import Integers
from pipelines.novelty.state import BucketState, LogSeries


@dataclass(frozen=True)
class NewTemplates:
    """First observations of log templates.

    Attributes:
        at: Their places among the observations.
        log10_p: Decimal logarithm of p_new; 0 while the resource is young.
    """

    at: Integers
    log10_p: Floats


def judge_new_templates(
    state: BucketState, told: Observations, born: Integers, windows: int, warmup_windows: int
) -> NewTemplates:
    """Judge, then learn, the templates that appeared first in this run.

    Args:
        state: State of the bucket; its counts of log windows are updated.
        told: Observations of the run.
        born: Window in which each series appeared first, -1 for those known before.
        windows: Windows of the run.
        warmup_windows: Log windows after which a resource is grown up.
    """
    log = state.series.log[told.row]
    resource = state.series.resource[told.row]
    events = (log >= LogSeries.TEMPLATE) & (told.value > 0)
    first = (log == LogSeries.TEMPLATE) & (told.window == born[told.row])
    logged = _marked(resource, told.window, events, (len(state.names), windows))
    before = state.resources.log_windows[:, None] + np.cumsum(logged, axis=1) - logged
    grown = logged & (before >= warmup_windows)
    novel = grown & _marked(resource, told.window, first, logged.shape)
    trials, novelties = grown.sum(axis=0), novel.sum(axis=0)
    n, k = state.log_trials + np.cumsum(trials) - trials, state.log_novelties + np.cumsum(novelties) - novelties
    log10_p = np.log10((k + 0.5) / (n + 1.0))
    state.resources.log_windows += logged.sum(axis=1)
    state.log_trials += int(trials.sum())
    state.log_novelties += int(novelties.sum())
    at = np.flatnonzero(first)
    judged = grown[resource[at], told.window[at]]
    return NewTemplates(at, np.where(judged, log10_p[told.window[at]], 0.0))


def _marked(
    resource: NDArray[np.int32], window: Integers, which: NDArray[np.bool_], shape: tuple[int, ...]
) -> NDArray[np.bool_]:
    """Return True where a resource has at least one of the chosen observations in a window."""
    marked = np.zeros(shape, dtype=np.bool_)
    marked[resource[which], window[which]] = True
    return marked
