"""The incidents job: one incident per cause, from the findings of the whole fleet.

Reads:      novelty.summaries (`Summary`), one per bucket and window.
Writes:     novelty.incidents (`Incident`), in a transaction of the driver; the latest record of an id is the truth.
Key:        id of the incident = blake2b-64 of (start of its first window, scope key, first resource).
Event time and lateness: a window is judged when the summaries of all B buckets for it are there, in window order; a
            missing one waits. Equal ones again, and windows at or before the last one judged, are ignored. No clock.
State:      one value: summaries of incomplete windows, open incidents, recent findings, learned rates; versioned.
Replay:     the same summaries give the same records, byte for byte, however micro-batches cut them.

    level:    single = share * false_incidents_per_day / (resources * windows per day)
    open:     p <= single in one window, or p <= pair in two of three; for resources known long enough, or silent
    hold:     p <= sqrt(single), or silent; close after close_after_windows without
    group:    at least group_share and group_minimum of its resources newly surprising within group_windows, each of
              them enough to open, or P(BetaBinomial(size, learned rate, correlation) >= count) <= group level:
              ONE incident of the group, which takes up those its members have just opened

Run: `python -m apps.incidents`. Modules: `windows` (summaries to complete windows), `state` (what is remembered),
`fold` (a window to records), `explain` (records to sentences), `processor` (Spark's state), `pipeline` (the query),
`output` (Kafka).
"""
