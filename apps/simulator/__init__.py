"""A telecom cloud that can be simulated: metrics, logs, disorder in arrival, and faults whose truth is known.

`topology` says what there is, `signals` and `logs` what it reports, `faults` what goes wrong, `disorder` how reports
travel, `stream` merges all of it into arrival order, `writer` sends it to Kafka, `scoring` compares incidents with
the faults.
"""
