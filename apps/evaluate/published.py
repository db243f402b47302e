"""Published results that stand beside ours in the report; each holds for exactly the data named."""

from __future__ import annotations

from typing import Final

#: NAB, the 45 files listed in the data's SOURCE.md with 87 windows, each detector's published scores with the threshold
#: refitted: standard, low FP, low FN. Source: result files of numenta/NAB, scored by the rule of `apps.evaluate.nab`.
NAB_FILES: Final = 45
NAB_SPANS: Final = 87
NAB: Final = {
    "ARTime": (77.3, 68.1, 82.6),
    "CAD OSE": (75.1, 72.3, 78.0),
    "Numenta HTM": (73.4, 67.0, 77.3),
    "HTM Java": (70.7, 64.5, 74.7),
    "Skyline": (64.2, 51.5, 70.0),
    "KNN CAD": (60.9, 46.3, 67.4),
    "Random Cut Forest": (54.5, 44.3, 61.7),
    "Windowed Gaussian": (47.1, 25.3, 56.0),
    "Bayesian changepoint": (21.7, 14.2, 35.1),
}

#: VUS-PR per machine in TSB-AD-M's per-series tables (offline methods, trained on the series).
#: Source: TheDatumOrg/TSB-AD.
SMD: Final = {
    "PCA": (0.240, 0.253, 0.778, 0.246, 0.430, 0.458, 0.181, 0.409, 0.857, 0.676),
    "CNN": (0.414, 0.335, 0.518, 0.254, 0.454, 0.138, 0.204, 0.300, 0.909, 0.787),
    "EIF": (0.336, 0.457, 0.595, 0.489, 0.025, 0.256, 0.124, 0.361, 0.896, 0.557),
    "LSTMAD": (0.438, 0.366, 0.171, 0.499, 0.119, 0.120, 0.218, 0.307, 0.908, 0.533),
}
SMD_MACHINES: Final = ("1-2", "2-1", "2-7", "3-4", "1-5", "1-7", "2-2", "2-3", "2-8", "3-10")
