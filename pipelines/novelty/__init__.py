"""The novelty job: what is surprising, judged by models that learn from every closed window.

Reads:      telemetry.statistics (`Statistics`, `ControlRecord`, `ClosedMarker`), committed records only.
Writes:     novelty.scores (`Score`, one per resource and window), then novelty.summaries (`Summary`, one per bucket
            and window: its scores are there), novelty.models (`ModelSnapshot`, latest per resource).
Key:        bucket = pmod(xxhash64(resource), B); all series of a bucket are folded together, as arrays.
Event time and lateness: closed markers in the log say when a window is complete in its partition. Records before the
            marker may come in any order and more than once; anything at or before the last closed window is ignored.
            Control records are applied at the marker of the window they are stamped with.
State:      per bucket: the models' arrays and who is who (packed, with a layout version); parcels of open windows.
Replay:     a fold over the log: the same log gives the same bytes, however micro-batches cut it. No clock, no
            randomness. Retries and repeated windows change nothing.

    state(w), records(w) = fold(state(w-1), {statistics of w})         score first, then learn
    p(series)   = predictive tail probability of the window's value, given all windows before
    p(resource) = calibrated Cauchy combination of its series' p

Run: `python -m apps.novelty`. Modules: `packing` (records to parcels), `state` (what is remembered), `directory` (names
to rows), `observations` (statistics to values), `templates` (new log templates), `run` (windows to verdicts), `reports`
(verdicts to records), `fold` (all of it, pure), `processor` (Spark's state), `pipeline` (the query), `output` (Kafka).
"""
