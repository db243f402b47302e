"""Random numbers as a pure function of (key, counter): no state, so any cut of time gives the same values.

The generator is the finalizer of SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014)
applied to key and counter. Distributions are inverse transforms of one uniform each, hence monotone in their
parameters: a fault changes the values it touches and no others.
"""

from __future__ import annotations

import hashlib
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_GOLDEN: Final = np.uint64(0x9E3779B97F4A7C15)
_FIRST: Final = np.uint64(0xBF58476D1CE4E5B9)
_SECOND: Final = np.uint64(0x94D049BB133111EB)

#: Above this rate the normal approximation of a Poisson count is closer than anything a detector could notice.
_NORMAL_FROM_RATE: Final = 20.0


def key_of(*parts: object) -> int:
    """Return the 64-bit key of a name made of parts, for example (seed, resource, metric)."""
    name = "\x1f".join(map(str, parts))
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little")


def bits(key: int, counter: Ints) -> NDArray[np.uint64]:
    """Return 64 random bits for each counter, same shape."""
    return _mix(counter.astype(np.uint64) * _GOLDEN + np.uint64(key))


def uniform(key: int, counter: Ints) -> Floats:
    """Return uniforms of the open interval (0, 1), same shape as `counter`."""
    return ((bits(key, counter) >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53


def two_uniforms(key: int, counter: Ints) -> tuple[Floats, Floats]:
    """Return two independent uniforms of (0, 1) in steps of 2**-32, each of the shape of `counter`."""
    both = bits(key, counter)
    high, low = (both >> np.uint64(32)).astype(np.float64), (both & np.uint64(0xFFFFFFFF)).astype(np.float64)
    return (high + 0.5) * 2.0**-32, (low + 0.5) * 2.0**-32


def normal(key: int, counter: Ints) -> Floats:
    """Return standard normals, same shape as `counter`."""
    return np.asarray(ndtri(uniform(key, counter)), dtype=np.float64)


def smooth(key: int, times_ms: Ints, period_ms: int) -> Floats:
    """Return a standard normal process that wanders within about `period_ms`: knots joined by smooth steps."""
    knot, offset = np.divmod(times_ms, period_ms)
    share = offset / period_ms
    weight = share * share * (3.0 - 2.0 * share)
    mixed = (1.0 - weight) * normal(key, knot) + weight * normal(key, knot + 1)
    return np.asarray(mixed / np.hypot(1.0 - weight, weight), dtype=np.float64)


def poisson(u: Floats, rate: Floats) -> Floats:
    """Return Poisson quantiles: counts with mean `rate` for uniforms `u`, same shape."""
    count = np.maximum(np.rint(rate + np.sqrt(rate) * ndtri(u)), 0.0)
    small = rate < _NORMAL_FROM_RATE
    if small.any():
        count[small] = _small_poisson(u[small], rate[small])
    return count


def binomial(u: Floats, trials: Floats, share: Floats) -> Floats:
    """Return the number of successes among `trials` with probability `share`, from uniforms `u`, same shape."""
    failures = trials * (1.0 - share)
    spread = np.sqrt(failures * share) * ndtri(u)
    rare = failures < _NORMAL_FROM_RATE
    drawn = np.where(rare, poisson(u, np.where(rare, failures, 0.0)), np.rint(failures + spread))
    return np.asarray(trials - np.clip(drawn, 0.0, trials), dtype=np.float64)


def _small_poisson(u: Floats, rate: Floats) -> Floats:
    term = np.exp(-rate)
    cumulative = term.copy()
    count = np.zeros_like(rate)
    for k in range(1, 100):
        below = u > cumulative
        if not below.any():
            break
        count += below
        term = term * rate / k
        cumulative += term
    return count


def _mix(value: NDArray[np.uint64]) -> NDArray[np.uint64]:
    value = (value ^ (value >> np.uint64(30))) * _FIRST
    value = (value ^ (value >> np.uint64(27))) * _SECOND
    return value ^ (value >> np.uint64(31))
