"""Series of a feed: small integers stand for (resource, metric), and rules give each its kind and unit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

import numpy as np
from numpy.typing import NDArray

Codes = NDArray[np.int32]


@dataclass
class SeriesTable:
    """Numbers every (resource, metric) in the order of first sight."""

    names: list[tuple[str, str]] = field(default_factory=list)
    _codes: dict[tuple[str, str], int] = field(default_factory=dict)

    def code(self, resource: str, metric: str) -> int:
        """Return the number of a series, a new one if it was not seen before."""
        name = (resource, metric)
        code = self._codes.get(name)
        if code is None:
            code = self._codes[name] = len(self.names)
            self.names.append(name)
        return code

    def codes(self, names: Iterable[tuple[str, str]]) -> Codes:
        """Return the numbers of many series."""
        return np.fromiter((self.code(*name) for name in names), dtype=np.int32)

    def __len__(self) -> int:
        return len(self.names)


@dataclass(frozen=True)
class Rules:
    """Values by metric name: the first shell pattern that fits decides, else the default."""

    default: str
    patterns: tuple[tuple[str, str], ...] = ()

    def of(self, metric: str) -> str:
        """Return the value for a metric."""
        return next((value for pattern, value in self.patterns if fnmatchcase(metric, pattern)), self.default)


def parse_rules(texts: Sequence[str], default: str, allowed: Sequence[str] | None = None) -> Rules:
    """Return the rules written as `VALUE` (for all) or `PATTERN=VALUE`.

    Raises:
        ValueError: A value is not among the allowed ones.
    """
    patterns = []
    for text in texts:
        pattern, equals, value = text.rpartition("=")
        if allowed is not None and value not in allowed:
            message = f"{value!r} in {text!r} is not one of {', '.join(allowed)}"
            raise ValueError(message)
        if equals:
            patterns.append((pattern, value))
        else:
            default = value
    return Rules(default, tuple(patterns))


@dataclass(frozen=True)
class Selection:
    """Which metrics are fed: those that fit an `include` pattern (all without one) and no `exclude` pattern."""

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()

    def takes(self, metric: str) -> bool:
        """Return whether a metric is fed."""
        included = not self.include or any(fnmatchcase(metric, pattern) for pattern in self.include)
        return included and not any(fnmatchcase(metric, pattern) for pattern in self.exclude)
