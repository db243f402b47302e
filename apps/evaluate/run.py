"""An evaluation from folder to sections: load, detect, judge, keep the scores."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from apps.evaluate import datasets
from apps.evaluate.cisco_section import cisco_section
from apps.evaluate.interface import Detector, Scores
from apps.evaluate.kpi_section import kpi_section
from apps.evaluate.nab_section import nab_section
from apps.evaluate.recordings import DataError, Recording
from apps.evaluate.report import Section
from apps.evaluate.section import Found, Levels
from apps.evaluate.smd_section import smd_section
from apps.evaluate.synthetic import clean_resource_level
from apps.evaluate.synthetic_section import measure, steps, synthetic_section

#: Called before a part of the work with what it is and its number of steps; returns what to call after each step.
Begin = Callable[[str, int], Callable[[], None]]

#: Name of each data set's folder in a folder of all of them.
FOLDERS: Final[Mapping[str, str]] = {
    "nab": "nab",
    "smd": "smd",
    "kpi": "kpi_aiops2018",
    "cisco": "cisco_telemetry",
    "synthetic": "cisco_telemetry",
}


def silent(_what: str, _steps: int) -> Callable[[], None]:
    """Show no progress."""
    return lambda: None


@dataclass(frozen=True)
class Evaluation:
    """Detectors to evaluate, and where to keep their scores.

    Attributes:
        detectors: By name, in order; the first one's plots are shown.
        scores: Folder for scores, one Parquet file per recording; None keeps none.
        begin: Shows progress.
    """

    detectors: Mapping[str, Detector]
    scores: Path | None = None
    begin: Begin = silent

    @property
    def levels(self) -> Levels:
        """Default alarm level of each detector."""
        return {name: detector.level for name, detector in self.detectors.items()}

    @cached_property
    def resource_levels(self) -> Levels:
        """Level of each detector's resource evidence, chosen on clean synthetic series."""
        found = {}
        for name, detector in self.detectors.items():
            done = self.begin(f"{name}: level on clean series", 1)
            found[name] = clean_resource_level(detector)
            done()
        return found

    def sections(self, data_set: str, folder: Path | None) -> list[Section]:
        """Evaluate a data set.

        Args:
            data_set: `nab`, `smd`, `kpi`, `cisco`, `synthetic`, or `all` of them.
            folder: Its folder, or one that holds the folders of all data sets; only `synthetic` can do without.

        Raises:
            DataError: The folder or its data are missing.
        """
        names = FOLDERS if data_set == "all" else (data_set,)
        return [section for name in names for section in self._of(name, folder_of(name, folder))]

    def _of(self, name: str, folder: Path | None) -> list[Section]:
        if name == "synthetic":
            return [self._synthetic(folder)]
        if folder is None:
            message = f"`{name}` needs the folder of its data"
            raise DataError(message)
        return {"nab": self._nab, "smd": self._smd, "kpi": self._kpi, "cisco": self._cisco}[name](folder)

    def _nab(self, folder: Path) -> list[Section]:
        files = datasets.load_nab(folder)
        return [nab_section(files, self._detect("nab", [file.recording for file in files]), self.levels)]

    def _smd(self, folder: Path) -> list[Section]:
        machines = datasets.load_smd(folder, datasets.smd_machines(folder))
        return [smd_section(machines, self._detect("smd", [machine.recording for machine in machines]))]

    def _kpi(self, folder: Path) -> list[Section]:
        kpis = datasets.load_kpi(folder)
        return [kpi_section(kpis, self._detect("kpi", [kpi.recording for kpi in kpis]), self.levels)]

    def _cisco(self, folder: Path) -> list[Section]:
        sections = []
        for name in datasets.cisco_names(folder):
            fleet = datasets.load_cisco(folder, name)
            found = self._detect(f"cisco/{name}", fleet.routers)
            sections.append(cisco_section(name, fleet, found, self.resource_levels))
        return sections

    def _synthetic(self, folder: Path | None) -> Section:
        fleet = None if folder is None else datasets.load_cisco(folder, datasets.cisco_names(folder)[0])
        found = {}
        for name, detector in self.detectors.items():
            level = self.resource_levels[name]
            found[name] = measure(detector, fleet, level, self.begin(f"{name}: synthetic series", steps(fleet)))
        return synthetic_section(found)

    def _detect(self, data_set: str, recordings: Sequence[Recording]) -> Found:
        return {name: self._scores(data_set, name, detector, recordings) for name, detector in self.detectors.items()}

    def _scores(
        self, data_set: str, name: str, detector: Detector, recordings: Sequence[Recording]
    ) -> Sequence[Scores]:
        done = self.begin(f"{name}: {data_set}", len(recordings))
        found: list[Scores] = []
        for begin in range(0, len(recordings), detector.together):
            group = recordings[begin : begin + detector.together]
            found += detector.detect(group)
            for recording, scores in zip(group, found[begin:], strict=True):
                if self.scores is not None:
                    keep(self.scores / data_set / name, recording, scores)
                done()
        return found


def folder_of(data_set: str, folder: Path | None) -> Path | None:
    """Return the folder of a data set, given it or a folder of all data sets.

    Raises:
        DataError: There is no such folder.
    """
    if folder is None:
        return None
    if not folder.is_dir():
        message = f"there is no folder {folder}"
        raise DataError(message)
    below = folder / FOLDERS[data_set]
    return below if below.is_dir() else folder


def keep(folder: Path, recording: Recording, scores: Scores) -> None:
    """Write a recording's scores into a Parquet file: window's end, evidence, and surprise and alarm per series."""
    folder.mkdir(parents=True, exist_ok=True)
    columns = {"end_ms": pa.array(recording.end_ms), "resource": pa.array(scores.resource.astype(np.float32))}
    for output in ("surprise", "alarm"):
        values = getattr(scores, output).astype(np.float32)
        columns |= {f"{output}.{name}": pa.array(values[:, place]) for place, name in enumerate(recording.series)}
    pq.write_table(pa.table(columns), folder / f"{recording.resource.replace('/', '__')}.parquet", compression="zstd")
