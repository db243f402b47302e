"""From bucket summaries, in any order and more than once, to complete windows in order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from models.fleet import Group
from topics.controls import control_of
from topics.records import Finding, GroupCount, OperatorVerdict, SeriesScore, Summary


class BucketCountError(ValueError):
    """A summary was written with another number of buckets."""


def summary_from_json(value: bytes) -> Summary:
    """Read a record of novelty.summaries."""
    return summary_from_dict(orjson.loads(value))


def summary_from_dict(fields: Mapping[str, Any]) -> Summary:
    """Build a summary from its parsed JSON object."""
    findings = [
        Finding(**{**finding, "top": [SeriesScore(**series) for series in finding["top"]]})
        for finding in fields["findings"]
    ]
    groups = [GroupCount(**group) for group in fields["groups"]]
    verdicts = [control_of(verdict) for verdict in fields["verdicts"]]
    return Summary(**{**fields, "findings": findings, "groups": groups, "verdicts": verdicts})


@dataclass(frozen=True)
class Window:
    """One window of the whole fleet.

    Attributes:
        start_ms: Start, event time.
        end_ms: End, event time.
        findings: What every bucket found, in order of resource.
        sizes: Known resources of each group.
        verdicts: What operators said, in log order.
    """

    start_ms: int
    end_ms: int
    findings: tuple[Finding, ...]
    sizes: Mapping[Group, int]
    verdicts: tuple[OperatorVerdict, ...] = ()

    @property
    def resources(self) -> int:
        """Return the number of known resources."""
        return sum(self.sizes.values())


def window_of(summaries: Mapping[int, Summary]) -> Window:
    """Join the summaries of all buckets for one window; which came first makes no difference."""
    in_order = [summaries[bucket] for bucket in sorted(summaries)]
    findings = (finding for summary in in_order for finding in summary.findings)
    sizes: dict[Group, int] = {}
    for count in (count for summary in in_order for count in summary.groups):
        group = (count.service, count.region)
        sizes[group] = sizes.get(group, 0) + count.resources
    first = in_order[0]
    return Window(
        first.window_start_ms,
        first.window_end_ms,
        tuple(sorted(findings, key=lambda finding: finding.resource)),
        sizes,
        tuple(verdict for summary in in_order for verdict in summary.verdicts),
    )


@dataclass
class Windows:
    """Summaries of windows that are not complete yet.

    Attributes:
        buckets: Number of buckets that must report.
        last_end_ms: End of the last window handed out; None before the first one.
        pending: Summaries by window end and bucket.
    """

    buckets: int
    last_end_ms: int | None = None
    pending: dict[int, dict[int, Summary]] = field(default_factory=dict)

    def add(self, summary: Summary) -> bool:
        """Keep a summary that is still needed; return whether it was.

        Raises:
            BucketCountError: It belongs to another partitioning of the fleet.
        """
        if summary.buckets != self.buckets:
            message = (
                f"a summary of {summary.buckets} buckets in a chain set to {self.buckets}: the topic holds records of "
                "other settings. Put [novelty] buckets back, or start a new generation"
            )
            raise BucketCountError(message)
        if self.last_end_ms is not None and summary.window_end_ms <= self.last_end_ms:
            return False
        window = self.pending.setdefault(summary.window_end_ms, {})
        if summary.bucket in window:
            return False
        window[summary.bucket] = summary
        return True

    def complete(self) -> Iterator[Window]:
        """Hand out the windows that are complete, in order, up to the first one that is not."""
        while self.pending:
            end_ms = min(self.pending)
            summaries = self.pending[end_ms]
            if len(summaries) == self.buckets:
                del self.pending[end_ms]
                self.last_end_ms = end_ms
                yield window_of(summaries)
            elif self._before_the_beginning(summaries):
                del self.pending[end_ms]
            else:
                return

    def _before_the_beginning(self, summaries: Mapping[int, Summary]) -> bool:
        """Tell whether a window is incomplete for ever because a bucket's summaries begin after it.

        Buckets write their windows in order, so at the beginning of the topic a bucket that is already further will
        not write this one any more. Once a window was complete, a missing summary is waited for.
        """
        if self.last_end_ms is not None:
            return False
        later = {bucket for window in self.pending.values() for bucket in window}
        return len(later) == self.buckets and len(summaries) < self.buckets

    @property
    def waiting(self) -> int:
        """Return the number of windows that miss a summary."""
        return len(self.pending)
