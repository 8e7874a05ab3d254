"""Changes of configurations that are refused, each after what Storm does with the value."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from stormwright.controller.configuration import CHANGEABLE, require_sound_conf
from stormwright.errors import InputError
from stormwright.model import LoadProfile, Problem
from stormwright.model.load import assumed_load
from tests.controller.builders import on, problem, topology

T = topology("t")


def running(load: dict[str, Any] | None = None, cluster: dict[str, Any] | None = None, **conf: Any) -> Problem:
    one = replace(T, conf=conf)
    measured = replace(assumed_load(one, 3e9), **(load or {}))
    now = problem([one], current={T.id: on("n0", "n1")}, load=LoadProfile({T.id: measured}, start_ms=0, end_ms=1000))
    return replace(now, conf=cluster or {})


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        ("topology.acker.executors", 2, "shift the ids of all tasks: change the executors of __acker"),
        ("topology.eventlogger.executors", 1, "shift the ids of all tasks"),
        ("topology.workers", 4, "the number of workers is that of its placement"),
        ("topology.tasks", 4, "tasks are as submitted"),
        ("topology.transfer.batch.size", 2, "keep a topology from being drained"),
        ("topology.name", "u", "is not changed while the topology runs"),
        ("topology.max.spout.pendign", 4, "did you mean topology.max.spout.pending"),
        ("topology.max.spout.pending", 0, "should be an integer of at least 1"),
        ("topology.max.spout.pending", "200", "should be an integer of at least 1"),
        ("topology.max.spout.pending", None, "null is none"),
        ("topology.message.timeout.secs", 1, "should be an integer from 2 to 86400"),
        (
            "topology.bolt.wait.strategy",
            "com.example.Wait",
            "should be one of org.apache.storm.policy",
        ),
        ("topology.stats.sample.rate", 0, "should be a number above 0"),
        ("topology.debug", "yes", "should be true or false"),
        ("topology.worker.childopts", "-XX:+NoSuchFlag", "is not changed while the topology runs: heap"),
        ("topology.worker.childopts", "-Xms2g -Xmx1g", "-Xms is above -Xmx"),
        ("stormwright.weight", 2, "is set where the topology is submitted"),
        ("my.own.key", 2, "is not changed while the topology runs"),
    ],
)
def test_value_that_could_do_harm_is_refused_with_the_reason(key: str, value: object, why: str) -> None:
    with pytest.raises(InputError, match=f"t-1-0/{key}: .*{why}"):
        require_sound_conf(running(), {T.id: {key: value}})


@pytest.mark.parametrize(
    "values",
    [
        # Half of the queue that they go to: `JCQueue` and `WorkerTransfer` end the worker.
        {"topology.producer.batch.size": 20_000},
        {"topology.producer.batch.size": 100, "topology.executor.receive.buffer.size": 128},
        # Batches that pending trees cannot fill.
        {"topology.producer.batch.size": 500, "topology.max.spout.pending": 200},
        {"topology.producer.batch.size": 10, "topology.batch.flush.interval.millis": 0},
    ],
)
def test_batches_by_which_workers_end_or_stand_still_are_refused(values: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=f"{T.id}/topology"):
        require_sound_conf(running(), {T.id: values})


def test_batches_of_several_workers_would_wait_for_ever() -> None:
    change = {T.id: {"topology.producer.batch.size": 2}}
    with pytest.raises(InputError, match="with several workers, tuples from others wait until a batch is full"):
        require_sound_conf(running(), change)
    now = running()
    require_sound_conf(replace(now, topologies=(replace(now.topologies[0], num_workers=1),)), change)


def test_fault_of_before_is_the_owners_own() -> None:
    now = running(**{"topology.producer.batch.size": 500, "topology.max.spout.pending": 200})
    require_sound_conf(now, {T.id: {"topology.debug": True}})


def test_pinned_key_stays() -> None:
    now = running(**{"stormwright.pinned.keys": ["topology.max.spout.pending"]})
    require_sound_conf(now, {T.id: {"topology.debug": True}})
    with pytest.raises(InputError, match="its owner has pinned it"):
        require_sound_conf(now, {T.id: {"topology.max.spout.pending": 100}})


def test_second_collector_would_end_the_jvm() -> None:
    now = running(cluster={"worker.gc.childopts": "-XX:+UseG1GC"})
    with pytest.raises(InputError, match=r"one collector, not -XX:.UseG1GC and -XX:.UseSerialGC"):
        require_sound_conf(now, {T.id: {"topology.worker.childopts": "-XX:+UseSerialGC"}})
    # That of the topology stands for the cluster's (`BasicContainer.mkLaunchCommand`).
    require_sound_conf(now, {T.id: {"topology.worker.gc.childopts": "-XX:+UseSerialGC"}})


def test_heap_has_room_for_what_is_alive() -> None:
    now = running(load={"live_heap_mb": np.full(T.num_executors, 100.0)})
    require_sound_conf(now, {T.id: {"topology.worker.childopts": "-Xmx512m"}})
    with pytest.raises(InputError, match="232 MB are alive"):
        require_sound_conf(now, {T.id: {"topology.worker.childopts": "-Xmx256m"}})


def test_every_changeable_key_has_values_that_are_taken() -> None:
    for key, allowed in CHANGEABLE.items():
        value = next(iter(allowed.values)) if hasattr(allowed, "values") else allowed.least
        value = 1 if value == 0.01 else value
        if key != "topology.stats.sample.rate":
            require_sound_conf(running(), {T.id: {key: value}})
