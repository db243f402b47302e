"""What stands above the report's numbers."""

from __future__ import annotations

from typing import Final

HEADING: Final = """
# Detection quality

Written by `kappa evaluate all DIR --detector ... --report docs/quality.md`; the same data give the same bytes. Every
recording is streamed in event time, a window is scored before it is learned, nothing looks ahead, and one configuration
serves all data sets. *kappa* is the code the novelty job runs. The baselines stand behind the same interface: river's
`GaussianScorer` and `HalfSpaceTrees`, and an exponentially weighted normal of level and difference.

Read it with these in mind:
- The models were developed with these data at hand. What is *held out* or *fitted on train* is the fairer number.
- Rows stamped with the beginning of an interval become windows that end one usual interval later; repeated timestamps
  become one window with their mean; gaps stay gaps. Nothing says what is a count or a ratio in these files, so all are
  gauges.
- These data have known defects: NAB's windows are a fixed share of each file, Cisco's events are few and its start is
  free of them by construction, SMD's labels are coarse.

## Summary
"""
