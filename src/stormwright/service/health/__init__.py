"""Health of the cluster while it runs: faults of its parts, each in one sentence within ten seconds.

`monitor` combines the findings of `nimbus` (Nimbus and supervisors), `workers` (records of the probes) and `machine`
(clock, pauses of this service, measurement of loads).
"""
