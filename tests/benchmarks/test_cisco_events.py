from __future__ import annotations

from pathlib import Path

from benchmarks.cisco_events import Event, judge, largest_grace_ms, read_ground_truth
from topics.records import Incident

WINDOW_MS, GRACE_MS = 10_000, 30_000


def incident(name: str, start_s: int, *resources: str) -> Incident:
    return Incident(
        id=name,
        state="close",
        revision=1,
        scope="resource",
        severity="major",
        score=60.0,
        p=1e-6,
        start_ms=1000 * start_s,
        end_ms=1000 * (start_s + 20),
        last_window_end_ms=1000 * (start_s + 20),
        windows=2,
        service=None,
        region=None,
        resources=list(resources),
        contributors=[],
        explanation="",
    )


def event(router: str, start_s: int, end_s: int, *others: str) -> Event:
    return Event(router, 1000 * start_s, 1000 * end_s, frozenset((router, *others)))


def test_ground_truth_lines_of_one_fault_share_their_routers(tmp_path: Path) -> None:
    path = tmp_path / "truth.txt"
    path.write_text(
        "Node,Host,Start,End,Event,Type\n"
        "leaf1,None,100,200,clearBGP,single\n"
        "spine1,None,300,400,clearBGP,single\n"
        "spine3,None,305,400,clearBGP,multiple\n"
    )
    assert read_ground_truth(path) == [
        event("leaf1", 100, 200),
        event("spine1", 300, 400, "spine3"),
        event("spine3", 305, 400, "spine1"),
    ]


def test_an_event_is_found_by_the_first_incident_that_names_its_router_in_time() -> None:
    incidents = [
        incident("later", 150, "leaf1"),
        incident("first", 90, "leaf2", "leaf1"),  # begins one window before, names another router first
        incident("other", 100, "leaf2"),  # names another router only
    ]
    judgement = judge([event("leaf1", 100, 200)], incidents, WINDOW_MS, GRACE_MS)
    (verdict,) = judgement.verdicts
    assert verdict.incident == incidents[1]
    assert not verdict.named_first
    assert [item.id for item in judgement.false] == ["other"]


def test_the_interval_is_from_one_window_before_to_the_grace_after() -> None:
    def found(start_s: int) -> int:
        return judge([event("leaf1", 100, 200)], [incident("a", start_s, "leaf1")], WINDOW_MS, GRACE_MS).found

    assert [found(start_s) for start_s in (89, 90, 230, 231)] == [0, 1, 1, 0]


def test_one_incident_may_find_all_events_of_a_fault() -> None:
    events = [event("spine1", 300, 400, "spine3"), event("spine3", 305, 400, "spine1")]
    judgement = judge(events, [incident("both", 300, "spine3", "spine1", "leaf5")], WINDOW_MS, GRACE_MS)
    assert judgement.found == 2
    assert all(verdict.named_first for verdict in judgement.verdicts)
    assert judgement.false == ()


def test_an_incident_of_an_unaffected_router_is_false_even_during_an_event() -> None:
    judgement = judge([event("leaf1", 100, 200)], [incident("a", 120, "leaf5")], WINDOW_MS, GRACE_MS)
    assert (judgement.found, [item.id for item in judgement.false]) == (0, ["a"])


def test_without_incidents_nothing_is_found_and_nothing_is_false() -> None:
    judgement = judge([event("leaf1", 100, 200)], [], WINDOW_MS, GRACE_MS)
    assert (judgement.found, judgement.false, judgement.verdicts[0].named_first) == (0, (), False)


def test_the_grace_ends_before_an_incident_of_the_next_fault_may_begin() -> None:
    events = [event("leaf1", 100, 200), event("leaf2", 260, 300), event("leaf3", 265, 300)]
    grace_ms = largest_grace_ms(events, WINDOW_MS)
    next_fault = [incident("next", 250, "leaf1", "leaf2")]  # as early as an incident of the next fault may begin
    assert judge(events, next_fault, WINDOW_MS, grace_ms).verdicts[0].incident is None
    assert judge(events, next_fault, WINDOW_MS, grace_ms + 1).verdicts[0].incident is not None
