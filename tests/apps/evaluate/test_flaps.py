"""Injected flaps: one metric, once, in a quiet span, of a known height; and how alarms are counted."""

from __future__ import annotations

import numpy as np

from apps.evaluate.flaps import HEIGHT, LENGTH, METRICS, during_events, inject, judge_flaps
from apps.evaluate.recordings import Event, Fleet, Recording

EVENTS = (Event("a", 700, 800, 0), Event("b", 1200, 1300, 1))


def fleet() -> Fleet:
    rng = np.random.default_rng(0)
    moving, counters = rng.normal(5, 2, (400, 50)), np.cumsum(rng.random((400, 70)), axis=0)
    values = np.concatenate([moving, counters, np.ones((400, 60))], axis=1)
    names = tuple(f"m{place}" for place in range(180))
    end_ms = 5000 * np.arange(400)
    return Fleet(tuple(Recording(name, end_ms, values.copy(), names) for name in "abc"), EVENTS)


def test_one_metric_jumps_once() -> None:
    given = fleet()
    for number, flap in enumerate(inject(given, 12)):
        router = given.routers[number % 3]
        places = [router.series.index(name) for name in flap.recording.series]
        changed = flap.recording.values - router.values[:, places]
        rows, columns = np.nonzero(changed)
        assert flap.recording.resource == router.resource
        assert (rows.tolist(), columns.tolist()) == (list(range(flap.window, flap.window + LENGTH)), [0] * LENGTH)
        quiet = ~during_events(router, EVENTS)
        assert quiet[rows].all()
        np.testing.assert_allclose(abs(changed[rows, 0]), HEIGHT * router.values[:, places[0]].std())
        assert len(places) == len(set(places)) == METRICS
        assert places[0] < 50  # no counter, no constant
        assert max(places) < 120  # constants only if nothing else is left


def test_the_same_every_time() -> None:
    first, again = inject(fleet(), 5), inject(fleet(), 5)
    assert [flap.window for flap in first] == [flap.window for flap in again]
    for one, other in zip(first, again, strict=True):
        np.testing.assert_array_equal(one.recording.values, other.recording.values)


def test_counting() -> None:
    given = fleet()
    flaps = inject(given, 3)
    scores = [np.zeros(400) for _ in flaps]
    scores[0][flaps[0].window + LENGTH] = 3.0  # one window after the jump still counts
    scores[1][flaps[1].window + LENGTH + 1] = 3.0  # two windows after it is a false alarm
    scores[2][145] = 3.0  # in the first event: neither
    found = judge_flaps(given, flaps, scores, 3.0)
    assert (found.injected, found.alarmed) == (3, 1)
    windows = 3 * (int((~during_events(given.routers[0], EVENTS))[100:].sum()) - LENGTH - 1)
    np.testing.assert_allclose(found.false_per_hour, 1 / (windows * 5 / 3600))
