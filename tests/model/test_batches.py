"""Sizes of batches that Storm 2.8.3 refuses at the start of a worker, or that pending trees never fill."""

from __future__ import annotations

import pytest

from stormwright.model import Component, Topology, default_executor_runs
from stormwright.model.batches import batch_faults


@pytest.mark.parametrize(
    ("conf", "of_spout", "ends"),
    [
        ({}, {}, []),
        ({"topology.producer.batch.size": 16_384}, {}, []),
        ({"topology.producer.batch.size": 16_385}, {}, [True]),
        ({"topology.producer.batch.size": 600, "topology.executor.receive.buffer.size": 1024}, {}, [True]),
        ({"topology.transfer.batch.size": 500}, {}, []),
        ({"topology.transfer.batch.size": 501}, {}, [True]),
        ({"topology.transfer.batch.size": 2, "topology.batch.flush.interval.millis": 0}, {}, [False]),
        ({"topology.producer.batch.size": 500, "topology.max.spout.pending": 200}, {}, [False]),
        ({"topology.producer.batch.size": 500, "topology.max.spout.pending": 500}, {}, []),
        ({"topology.producer.batch.size": 500}, {"topology.max.spout.pending": 499}, [False]),
        ({"topology.producer.batch.size": 500, "topology.max.spout.pending": None}, {}, []),
        ({"topology.producer.batch.size": "500", "topology.max.spout.pending": 200}, {}, []),
    ],
)
def test_batches_that_end_workers_or_never_fill(conf, of_spout, ends):
    components = (Component("s", "spout", 1, conf=of_spout), Component("b", "bolt", 1))
    topology = Topology("t", "t", 1, components, default_executor_runs(components), conf=conf)
    assert [fault.ends_workers for fault in batch_faults(topology, {})] == ends


def test_configuration_of_a_topology_comes_before_that_of_the_cluster():
    components = (Component("s", "spout", 1),)
    topology = Topology(
        "t", "t", 1, components, default_executor_runs(components), conf={"topology.max.spout.pending": 5}
    )
    of_cluster = {"topology.max.spout.pending": 1000, "topology.producer.batch.size": 6}
    (fault,) = batch_faults(topology, of_cluster)
    assert fault.text.startswith("topology.producer.batch.size 6 is above topology.max.spout.pending 5: batches of s")


def test_tuples_from_other_workers_wait_in_batches_that_nothing_flushes():
    components = (Component("s", "spout", 1), Component("b", "bolt", 1))
    conf = {"topology.producer.batch.size": 4}
    one = Topology("t", "t", 1, components, default_executor_runs(components), conf=conf)
    two = Topology("t", "t", 2, components, default_executor_runs(components), conf=conf)
    assert list(batch_faults(one, {})) == []
    (fault,) = batch_faults(two, {})
    assert fault.text.startswith("topology.producer.batch.size is 4: with several workers, tuples from others wait")
    assert not fault.ends_workers
