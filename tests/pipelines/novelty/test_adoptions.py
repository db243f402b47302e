"""Which series an expected incident lets adopt their present values."""

from __future__ import annotations

from pipelines.novelty.adoptions import adoptions, expected_subjects
from pipelines.novelty.directory import Directory
from pipelines.novelty.observations import gather
from pipelines.novelty.packing import Marker
from pipelines.novelty.state import BucketState
from tests.pipelines.novelty.log import Item, end_of, marker, parcel, record, rule, series, start_of
from topics.records import OperatorVerdict, Opinion, Subject


def said(opinion: Opinion, *subjects: Subject) -> OperatorVerdict:
    return OperatorVerdict(opinion, "i-1", list(subjects))


def adopted(*verdicts: tuple[int, OperatorVerdict], windows: int = 4) -> dict[int, list[tuple[str, str]]]:
    """Return resource and metric of what is adopted, by window, in a log in which `late` appears in window 2."""
    items: list[Item] = []
    for window in range(windows):
        names = ("vm-1", "vm-2", "vm-3")[: 3 if window >= 2 else 2]
        items += [rule(window, verdict) for at, verdict in verdicts if at == window]
        items += [record(name, window, [series(window, "cpu", 1.0), series(window, "net", 1.0)]) for name in names]
        items.append(marker(window))
    state = BucketState()
    table = gather([parcel(enumerate(items))], 0, end_of(windows))
    attendance = Directory(state, 100).attend(table, [Marker(end_of(at), start_of(at)) for at in range(windows)])
    return {
        window: [(state.names[state.series.resource[row]], attendance.names[row][0]) for row in rows.tolist()]
        for window, rows in adoptions(attendance, state).items()
    }


def test_only_what_is_expected_is_adopted() -> None:
    verdicts = [said("wrong", Subject("vm-1")), said("confirmed", Subject("vm-2"))]
    assert expected_subjects(verdicts) == []
    assert expected_subjects([*verdicts, said("expected", Subject("vm-3", "cpu"), Subject("vm-3"))]) == [
        ("vm-3", "cpu"), ("vm-3", None),
    ]  # fmt: skip


def test_a_metric_or_all_of_a_resource_is_adopted_at_the_marker_of_its_window() -> None:
    assert adopted((1, said("expected", Subject("vm-1", "cpu"))), (3, said("expected", Subject("vm-2")))) == {
        1: [("vm-1", "cpu")], 3: [("vm-2", "cpu"), ("vm-2", "net")],
    }  # fmt: skip


def test_what_other_buckets_hold_or_nobody_knows_is_left_alone() -> None:
    assert adopted((2, said("expected", Subject("elsewhere"), Subject("vm-1", "disk")))) == {}


def test_a_series_that_only_appears_has_nothing_to_adopt() -> None:
    later = said("expected", Subject("vm-3"))
    assert adopted((0, later), (2, later)) == {}
    assert list(adopted((3, later))) == [3]
