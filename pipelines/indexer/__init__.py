"""The indexer job: makes scores and incidents searchable, each exactly once, whatever fails on the way.

Reads:      novelty.scores (`Score`), novelty.incidents (`Incident`), committed records only.
Writes:     Elasticsearch: kappa-incidents (every incident), kappa-scores (resource windows) and kappa-series (series
            of a window), the last two from a score on; index.rejected (what Elasticsearch refused, with the reason).
Key:        `_id` = blake2b-128 of the natural key: resource and window; the same and the series; the incident's id.
Event time and lateness: none of its own. The index a document belongs to follows from its event time (window end;
            an incident's start, which never changes), so a record of any age finds its index.
State:      none beside Kafka offsets.
Replay:     the same records give the same documents in the same indices. A batch that runs again writes what is
            there already; an older revision never replaces a newer one (`version_type=external_gte`).

    document(record) = (index(family, generation, event time), id(natural key), version(record), fields(record))
    index := index with document wherever version(document) >= version(index[id])

Run: `python -m apps.indexer`. Modules: `documents` (records to documents), `bulk` (documents to outcomes), `pipeline`
(a micro-batch of records to counts).
"""
