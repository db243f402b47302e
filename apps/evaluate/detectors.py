"""The detectors that can be evaluated, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from apps.evaluate.baselines import Gaussian, HalfSpaceTrees, Normal
from apps.evaluate.interface import Detector
from apps.evaluate.kappa import Kappa

DETECTORS: Final[Mapping[str, Callable[[], Detector]]] = {
    "kappa": Kappa,
    "gaussian": Gaussian,
    "half-space-trees": HalfSpaceTrees,
    "normal": Normal,
}
