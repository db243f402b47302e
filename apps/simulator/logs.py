"""The log streams: about ten templates per service with variable parts, at Poisson rates that follow the load.

Severities are the texts of OpenTelemetry's log data model. Each event has its own id, a pure function of resource,
template, step and number within the step, from which time and variable parts are drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from string import Formatter
from typing import Final
from uuid import UUID

import numpy as np

from apps.simulator import topology
from apps.simulator.faults import (
    BURST_PER_MINUTE,
    NEW_TEMPLATE_PER_MINUTE,
    OUTAGE_ERRORS_PER_MINUTE,
    Fault,
    FaultKind,
)
from apps.simulator.randomness import Floats, Ints, bits, key_of, poisson, uniform
from apps.simulator.signals import Steps


@dataclass(frozen=True)
class Template:
    """One kind of log event. `body` is a format string over the variable parts of `_PARTS`."""

    severity: str
    per_minute: float
    body: str


#: What every machine logs.
_COMMON: Final = (
    Template("INFO", 0.6, "health check from {ip} passed in {small} ms"),
    Template("INFO", 0.3, "configuration revision {hex} is current"),
    Template("DEBUG", 0.4, "timer wheel advanced, {number} timers pending"),
    Template("WARN", 0.08, "retransmission to {ip}:{port} after {small} ms"),
    Template("ERROR", 0.03, "connection to {ip}:{port} refused, attempt {small}"),
)

#: Templates by service. The last one is the error that bursts and outages repeat.
TEMPLATES: Final[dict[str, tuple[Template, ...]]] = {
    topology.HOST: (
        *_COMMON,
        Template("INFO", 0.3, "domain {uuid} vcpu steal {small} percent"),
        Template("INFO", 0.2, "volume {hex} snapshot finished, {number} blocks"),
        Template("WARN", 0.05, "link bond0 member eth{small} flapped"),
        Template("WARN", 0.05, "page allocation stalled for {small} ms, order {small}"),
        Template("ERROR", 0.02, "I/O error on device vd{small}, sector {number}"),
    ),
    "upf": (
        *_COMMON,
        Template("INFO", 0.8, "PFCP session {hex} established for UE {ip}"),
        Template("INFO", 0.6, "PFCP session {hex} deleted, {number} bytes forwarded"),
        Template("DEBUG", 0.3, "FAR {number} applied to session {hex}"),
        Template("WARN", 0.06, "QER {number} rate exceeded by UE {ip}"),
        Template("ERROR", 0.03, "GTP-U path to {ip} lost, TEID {hex}"),
    ),
    "smf": (
        *_COMMON,
        Template("INFO", 0.8, "PDU session {number} of imsi-{imsi} activated on {ip}"),
        Template("INFO", 0.7, "PDU session {number} of imsi-{imsi} released"),
        Template("INFO", 0.2, "charging record {uuid} closed"),
        Template("WARN", 0.07, "policy decision {uuid} took {number} ms"),
        Template("ERROR", 0.03, "N4 request {number} to {ip} timed out"),
    ),
    "amf": (
        *_COMMON,
        Template("INFO", 0.9, "UE imsi-{imsi} registered, guti {hex}"),
        Template("INFO", 0.7, "UE imsi-{imsi} deregistered"),
        Template("INFO", 0.4, "N2 handover of UE {hex} to gNB {number} completed in {small} ms"),
        Template("WARN", 0.08, "authentication of imsi-{imsi} failed, cause {small}"),
        Template("ERROR", 0.03, "NGAP association with {ip}:{port} aborted"),
    ),
    topology.CELL: (
        *_COMMON,
        Template("INFO", 0.7, "RRC connection of C-RNTI {hex} set up"),
        Template("INFO", 0.6, "RRC connection of C-RNTI {hex} released after {number} ms"),
        Template("INFO", 0.2, "beam {small} recalibrated"),
        Template("WARN", 0.07, "radio link failure of C-RNTI {hex}, timing advance {small}"),
        Template("ERROR", 0.03, "F1 setup with {ip} failed, transaction {number}"),
    ),
}

#: Logged only in a `new_template` fault.
UNSEEN: Final = Template("ERROR", 0.0, "certificate chain of peer {ip} expired, serial {hex}, handshake abandoned")


#: What faults add: column of the template, counted from the end, and events per minute.
_ADDED: Final[dict[FaultKind, tuple[int, float]]] = {
    "log_burst": (-2, BURST_PER_MINUTE),
    "service_outage": (-2, OUTAGE_ERRORS_PER_MINUTE),
    "new_template": (-1, NEW_TEMPLATE_PER_MINUTE),
}
_MOST_PER_STEP: Final = 4096


@dataclass(frozen=True)
class Events:
    """Log events of one resource: event time, severity and body of each, and the number that identifies it."""

    times_ns: Ints
    severities: list[str]
    bodies: list[str]
    ids: Ints


def events(seed: int, resource: topology.Resource, faults: Sequence[Fault], steps: Steps) -> Events:
    """Return the log events of the steps, in order of step, template and number."""
    templates = (*TEMPLATES[resource.service], UNSEEN)
    key = key_of(seed, "log", resource.name)
    counters = steps.number[:, None] * len(templates) + np.arange(len(templates))
    step, template, nth = _spread_out(_counts(key, counters, templates, faults, steps))
    ids = counters[step, template] * _MOST_PER_STEP + nth
    offset_ns = (uniform(key + 1, ids) * steps.interval_s * 1e9).astype(np.int64)
    chosen = [templates[index] for index in template.tolist()]
    random = bits(key + 2, ids).tolist()
    return Events(
        times_ns=steps.times_ms[step] * 1_000_000 + offset_ns,
        severities=[item.severity for item in chosen],
        bodies=[_FILL[item.body](value) for item, value in zip(chosen, random, strict=True)],
        ids=ids,
    )


def _counts(key: int, counters: Ints, templates: Sequence[Template], faults: Sequence[Fault], steps: Steps) -> Ints:
    """Return the number of events per step and template, shape (steps, templates)."""
    minutes = steps.interval_s / 60.0
    ordinary = np.sqrt(steps.load)[:, None] * np.array([item.per_minute for item in templates])
    count = poisson(uniform(key + 3, counters), ordinary * minutes)
    extra = _extra_per_minute(len(templates), faults, steps.times_ms)
    if extra.any():
        count += poisson(uniform(key + 4, counters), extra * minutes)
    return np.minimum(count, _MOST_PER_STEP - 1).astype(np.int64)


def _extra_per_minute(templates: int, faults: Sequence[Fault], times_ms: Ints) -> Floats:
    """Return the events per minute that faults add, shape (steps, templates)."""
    extra = np.zeros((times_ms.size, templates))
    for fault in faults:
        if fault.kind in _ADDED:
            column, per_minute = _ADDED[fault.kind]
            extra[:, column] += per_minute * fault.active(times_ms)
    return extra


def _spread_out(counts: Ints) -> tuple[Ints, Ints, Ints]:
    """Return step, template and running number of every event that a (steps, templates) matrix counts."""
    number = counts.ravel()
    cell = np.repeat(np.arange(number.size), number)
    nth = np.arange(cell.size) - np.repeat(np.cumsum(number) - number, number)
    step, template = np.divmod(cell, counts.shape[1])
    return step, template, nth


_PARTS: Final[dict[str, Callable[[int], str]]] = {
    "small": lambda value: str(value & 31),
    "number": lambda value: str(value >> 8 & 0xFFFFF),
    "port": lambda value: str(1024 + (value >> 16 & 0x7FFF)),
    "hex": lambda value: f"{value & 0xFFFFFFFF:08x}",
    "ip": lambda value: f"10.{value >> 24 & 63}.{value >> 32 & 255}.{value >> 40 & 255}",
    "imsi": lambda value: f"00101{value >> 20 & 0x1FFFFFFF:010d}",
    "uuid": lambda value: str(UUID(int=value << 64 | value, version=4)),
}


def _filler(body: str) -> Callable[[int], str]:
    """Return a function that fills the variable parts of a body from 64 random bits."""
    names = tuple(dict.fromkeys(name for _, name, _, _ in Formatter().parse(body) if name))

    def fill(value: int) -> str:
        return body.format(**{name: _PARTS[name](value) for name in names})

    return fill


_FILL: Final = {
    template.body: _filler(template.body)
    for template in (*(item for group in TEMPLATES.values() for item in group), UNSEEN)
}
