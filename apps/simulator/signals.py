"""The metrics of each service, and their values: a load with daily and weekly shape, shared by what belongs together.

    level(t) = base * scale(resource) * load(service, region, t) ** elasticity * host(t) * own(t) * faults(t)

Load is common to a service in a region, the host factor to all machines on a host, so that series are correlated as
in a real cloud. What is reported is drawn around the level: gauges with normal or log-normal noise, counts from an
overdispersed Poisson distribution, counters as the sum of such amounts since the last restart, ratios as binomial
shares of the attempts beside them.
"""

from __future__ import annotations

import math
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from apps.simulator import topology
from apps.simulator.randomness import Floats, Ints, binomial, key_of, normal, poisson, smooth, uniform
from apps.simulator.topology import Resource
from topics.records import Kind

Role = Literal[
    "cpu", "memory", "latency", "requests", "success", "sessions", "traffic", "errors", "radio", "environment"
]
Noise = Literal["normal", "lognormal", "counts", "shares"]

MINUTE_MS: Final = 60_000
HOUR_MS: Final = 60 * MINUTE_MS
DAY_MS: Final = 24 * HOUR_MS


@dataclass(frozen=True)
class Signal:
    """One metric series of a service.

    Attributes:
        metric: Name, by OpenTelemetry's conventions where there is one.
        kind: Kind on the wire.
        unit: UCUM unit.
        role: What it tells about the resource; faults act on roles.
        noise: Distribution around the level.
        base: Level at ordinary load: of a gauge its value, of a delta or counter the amount per second, of a ratio
            the share.
        sigma: Relative noise.
        elasticity: 1: follows the load, 0: ignores it.
        attribute: Name and value of an attribute, or None.
        high: Upper bound of a gauge.
        decimals: Decimals of a gauge on the wire.
        trials: For a ratio: the metric that counts its attempts.
    """

    metric: str
    kind: Kind
    unit: str
    role: Role
    noise: Noise
    base: float
    sigma: float
    elasticity: float = 1.0
    attribute: tuple[str, str] | None = None
    high: float = math.inf
    decimals: int = 3
    trials: str | None = None

    @property
    def attributes(self) -> dict[str, str]:
        """Return the attributes of the series."""
        return dict([self.attribute] if self.attribute else [])

    @property
    def name(self) -> str:
        """Return metric and attributes as one name, unique within a resource."""
        return self.metric if self.attribute is None else f"{self.metric}{{{self.attribute[0]}={self.attribute[1]}}}"


def _cpu(base: float) -> Signal:
    return Signal("system.cpu.utilization", "gauge", "1", "cpu", "normal", base, 0.04, 0.8, high=1.0, decimals=4)


def _memory(gigabytes: float) -> Signal:
    state = ("state", "used")
    return Signal("system.memory.usage", "gauge", "By", "memory", "normal", gigabytes * 2**30, 0.012, 0.15, state,
                  decimals=0)  # fmt: skip


def _traffic(direction: str, megabytes_per_s: float) -> Signal:
    attribute = ("direction", direction)
    return Signal("system.network.io", "cumulative", "By", "traffic", "lognormal", megabytes_per_s * 1e6, 0.07, 1.0,
                  attribute)  # fmt: skip


def _errors(metric: str, per_minute: float) -> Signal:
    return Signal(metric, "cumulative", "{error}", "errors", "counts", per_minute / 60.0, 0.2, 0.5)


def _latency(metric: str, milliseconds: float) -> Signal:
    return Signal(metric, "gauge", "ms", "latency", "lognormal", milliseconds, 0.10, 0.4)


def _requests(metric: str, per_minute: float) -> Signal:
    return Signal(metric, "delta", "{request}", "requests", "counts", per_minute / 60.0, 0.10)


def _success(metric: str, trials: str, share: float) -> Signal:
    return Signal(metric, "ratio", "1", "success", "shares", share, 0.0, 0.0, trials=trials)


def _sessions(metric: str, count: float) -> Signal:
    return Signal(metric, "gauge", "{session}", "sessions", "normal", count, 0.015, decimals=0)


#: Every series of a resource, by service. A ratio stands after the attempts that it is a share of.
SIGNALS: Final[dict[str, tuple[Signal, ...]]] = {
    topology.HOST: (
        _cpu(0.38),
        _memory(96),
        Signal("system.cpu.load_average.1m", "gauge", "{thread}", "cpu", "lognormal", 14.0, 0.08, 0.8),
        _traffic("receive", 220),
        _traffic("transmit", 210),
        _errors("system.network.errors", 0.6),
        Signal("system.disk.io", "cumulative", "By", "traffic", "lognormal", 9e6, 0.12, 0.6, ("direction", "read")),
        Signal("system.disk.io", "cumulative", "By", "traffic", "lognormal", 2.1e7, 0.12, 0.6, ("direction", "write")),
        Signal("hw.temperature", "gauge", "Cel", "environment", "normal", 41.0, 0.01, 0.12, decimals=1),
        Signal("hw.power", "gauge", "W", "environment", "normal", 310.0, 0.02, 0.4, decimals=1),
    ),
    "upf": (
        _cpu(0.42),
        _memory(24),
        _traffic("receive", 85),
        _traffic("transmit", 82),
        Signal("system.network.packets", "cumulative", "{packet}", "traffic", "lognormal", 9.5e4, 0.07, 1.0),
        _errors("upf.packets.dropped", 3.0),
        _sessions("upf.sessions.active", 18_500),
        _latency("upf.forwarding.latency", 0.85),
        _requests("upf.session.modifications", 420),
        _requests("pfcp.requests", 160),
        _success("pfcp.success.ratio", "pfcp.requests", 0.996),
    ),
    "smf": (
        _cpu(0.33),
        _memory(12),
        _traffic("receive", 3.2),
        _traffic("transmit", 2.9),
        _sessions("smf.sessions.active", 21_000),
        _requests("smf.pdu_session.attempts", 190),
        _success("smf.pdu_session.success.ratio", "smf.pdu_session.attempts", 0.985),
        _requests("smf.pdu_session.releases", 175),
        _errors("smf.pfcp.timeouts", 0.8),
        _latency("smf.establishment.latency", 46.0),
        Signal("smf.ip_pool.utilization", "gauge", "1", "sessions", "normal", 0.41, 0.01, 0.9, high=1.0, decimals=4),
    ),
    "amf": (
        _cpu(0.30),
        _memory(10),
        _traffic("receive", 2.4),
        _traffic("transmit", 2.6),
        _sessions("amf.subscribers.registered", 34_000),
        _requests("amf.registration.attempts", 240),
        _success("amf.registration.success.ratio", "amf.registration.attempts", 0.978),
        _requests("amf.paging.requests", 600),
        _requests("amf.handover.requests", 85),
        _errors("amf.authentication.failures", 2.0),
        _latency("amf.registration.latency", 62.0),
    ),
    topology.CELL: (
        Signal("gnb.prb.utilization", "gauge", "1", "cpu", "normal", 0.36, 0.06, 1.0, ("direction", "downlink"), 1,
               4),
        Signal("gnb.prb.utilization", "gauge", "1", "cpu", "normal", 0.21, 0.06, 1.0, ("direction", "uplink"), 1.0, 4),
        _traffic("downlink", 11.0),
        _traffic("uplink", 1.8),
        _sessions("gnb.rrc.connected", 140),
        _requests("gnb.rrc.attempts", 75),
        _success("gnb.rrc.success.ratio", "gnb.rrc.attempts", 0.982),
        _requests("gnb.handover.attempts", 32),
        _success("gnb.handover.success.ratio", "gnb.handover.attempts", 0.965),
        _errors("gnb.radio_link.failures", 1.2),
        _latency("gnb.scheduling.latency", 4.2),
        Signal("gnb.sinr", "gauge", "dB", "radio", "normal", 15.5, 0.05, -0.08, decimals=2),
    ),
}  # fmt: skip


def roles(service: str) -> frozenset[Role]:
    """Return the roles that the signals of a service play."""
    return frozenset(signal.role for signal in SIGNALS[service])


def metrics_with(service: str, chosen: AbstractSet[Role]) -> tuple[str, ...]:
    """Return the metrics of a service with these roles, each once, in order."""
    return tuple(dict.fromkeys(signal.metric for signal in SIGNALS[service] if signal.role in chosen))


# ---- load ------------------------------------------------------------------------------------------------------------

#: Hours that each region's day is shifted by, so that their peaks do not coincide.
_REGION_HOURS: Final = {"north": 0.0, "south": 1.0, "east": 2.0}
_PEAK_HOUR: Final = 19.5
_DAILY: Final = 0.28
_TWICE_DAILY: Final = 0.09
_WEEKEND: Final = 0.9
#: Hours over which working day turns into weekend and back.
_WEEKEND_BLEND_HOURS: Final = 6.0
_THURSDAY_HOURS: Final = 72.0  # the epoch was a Thursday; weeks here start on Monday


def daily_load(times_ms: Ints, region: str) -> Floats:
    """Return the load of an average subscriber: 1 on average over a working day, same shape as `times_ms`."""
    hours = times_ms / HOUR_MS + _REGION_HOURS[region]
    phase = 2.0 * np.pi * (hours - _PEAK_HOUR) / 24.0
    return np.asarray((1.0 + _DAILY * np.cos(phase) + _TWICE_DAILY * np.cos(2.0 * phase)) * _weekend(hours))


def _weekend(hours: Floats) -> Floats:
    week = (hours + _THURSDAY_HOURS) % 168.0
    inside = np.minimum(week - 120.0, 168.0 - week) / _WEEKEND_BLEND_HOURS
    return 1.0 - (1.0 - _WEEKEND) * np.clip(inside, 0.0, 1.0)


def group_load(seed: int, resource: Resource, times_ms: Ints) -> Floats:
    """Return the load that a service in a region shares."""
    key = key_of(seed, "load", *resource.group)
    wander = 0.03 * smooth(key, times_ms, 2 * HOUR_MS) + 0.02 * smooth(key + 1, times_ms, 20 * MINUTE_MS)
    return daily_load(times_ms, resource.region) * np.exp(wander)


def host_factor(seed: int, host: str | None, times_ms: Ints) -> Floats:
    """Return what the machines on a host share; 1 where there is no host."""
    if host is None:
        return np.ones(times_ms.shape)
    return np.asarray(np.exp(0.025 * smooth(key_of(seed, "host", host), times_ms, HOUR_MS)))


def resource_load(seed: int, resource: Resource, times_ms: Ints) -> Floats:
    """Return the load of one resource: its service's load, its host's factor, and a part of its own."""
    key = key_of(seed, "own", resource.name)
    scale = math.exp(0.15 * float(normal(key, np.zeros(1, dtype=np.int64))[0]))
    own = np.exp(0.015 * smooth(key + 1, times_ms, 30 * MINUTE_MS))
    host = resource.name if resource.service == topology.HOST else resource.host
    return scale * group_load(seed, resource, times_ms) * host_factor(seed, host, times_ms) * own


# ---- values ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Steps:
    """Consecutive reports of one resource: their numbers, their nominal times, and the load at these times."""

    number: Ints
    times_ms: Ints
    load: Floats
    interval_s: float


@dataclass(frozen=True)
class Influence:
    """What faults do to one signal: factors on its level and on its noise, one per step."""

    multiplier: Floats
    spread: Floats


def amounts(signal: Signal, key: int, steps: Steps, influence: Influence, trials: Floats | None) -> Floats:
    """Return a gauge's values, a delta's or counter's amounts, or a ratio's successes, one per step.

    Args:
        signal: The series.
        key: Its random numbers.
        steps: When.
        influence: Faults.
        trials: Attempts per step; needed for a ratio.

    Raises:
        ValueError: A ratio without trials.
    """
    level = signal.base * steps.load**signal.elasticity * influence.multiplier
    if signal.noise == "shares":
        if trials is None:
            message = f"{signal.name} is a ratio and needs the attempts {signal.trials!r} listed before it"
            raise ValueError(message)
        return binomial(uniform(key, steps.number), trials, np.clip(level, 0.0, 1.0))
    noise = signal.sigma * influence.spread * normal(key, steps.number)
    if signal.noise == "counts":
        rate = level * steps.interval_s * np.exp(noise)
        return poisson(uniform(key + 1, steps.number), rate)
    drawn = level * (np.exp(noise) if signal.noise == "lognormal" else 1.0 + noise)
    if signal.kind == "cumulative":
        return np.asarray(np.rint(drawn * steps.interval_s), dtype=np.float64)
    return np.asarray(np.round(np.clip(drawn, 0.0, signal.high), signal.decimals), dtype=np.float64)
