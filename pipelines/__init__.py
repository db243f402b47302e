"""The jobs as pure transformations: DataFrame in, DataFrame out, plus the stateful folds.

`statistics` -> `novelty` -> `incidents` -> `indexer`, one package or module per job, joined only by the topics of
`topics/`. Nothing here knows where a broker runs; `apps/` wires sources and sinks.
"""
