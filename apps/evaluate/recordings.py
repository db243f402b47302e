"""What is evaluated: recordings of one resource each, and the labels that come with them.

A row is a closed window as the novelty job would see it: `end_ms` rises strictly; a missing value is NaN.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from models.interface import Floats, Likelihood

Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]


class DataError(RuntimeError):
    """The folder does not hold the data set."""


@dataclass(frozen=True)
class Recording:
    """One resource's windows.

    Attributes:
        resource: Its name.
        end_ms: End of each window, event time, strictly rising, shape (n,).
        values: Value of each series in each window, NaN where there is none, shape (n, series).
        series: Names of the series.
        likelihood: How the values are distributed; measured data come without that knowledge and are gauges.
        weight: Weight of each value as `models.interface.Block` means it.
    """

    resource: str
    end_ms: Integers
    values: Floats
    series: tuple[str, ...]
    likelihood: Likelihood = Likelihood.GAUGE
    weight: float = 1.0


@dataclass(frozen=True)
class NabFile:
    """One file of NAB.

    Attributes:
        recording: Its one series.
        category: Its folder; both folders of artificial data are one category.
        window_of_row: Window of the recording that each row of the file belongs to, shape (rows,).
        anomalies: First and last row of each labelled span, both inclusive.
    """

    recording: Recording
    category: str
    window_of_row: NDArray[np.intp]
    anomalies: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Kpi:
    """One KPI of the AIOps Challenge 2018; the first `train` rows are the train half, `label` has shape (n,)."""

    recording: Recording
    label: Flags
    train: int


@dataclass(frozen=True)
class Machine:
    """One machine of SMD; the first `train` rows are unlabelled warm-up, `label` is of the rows after, (n - train,)."""

    recording: Recording
    label: Flags
    train: int


@dataclass(frozen=True)
class Event:
    """One line of the Cisco ground truth, epoch seconds; lines of one fault share its number."""

    router: str
    start_s: float
    end_s: float
    fault: int


@dataclass(frozen=True)
class Fleet:
    """The routers of a Cisco data set, recorded at the same time, and what was done to them."""

    routers: tuple[Recording, ...]
    events: tuple[Event, ...]
