"""Values that Storm accepts for the keys of a topology's configuration.

After the annotations of ``org.apache.storm.Config`` of Storm 2.8.3 and ``ConfigValidation.validateTopoConf``, which
StormSubmitter and Nimbus call at a submission. Keys whose values only classes of Storm can validate are left out, and
other keys may have any value.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, Final

#: Kind of value → keys of it.
_KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "text": (
        "topology.backpressure.wait.strategy",
        "topology.bolt.wait.strategy",
        "topology.bolts.late.tuple.stream",
        "topology.bolts.message.id.field.name",
        "topology.kryo.factory",
        "topology.logging.config",
        "topology.logging.sensitivity",
        "topology.multilang.log.handler",
        "topology.multilang.serializer",
        "topology.name",
        "topology.oci.image",
        "topology.scheduler.strategy",
        "topology.spout.wait.strategy",
        "topology.state.provider",
        "topology.state.provider.config",
        "topology.submitter.principal",
        "topology.submitter.user",
        "topology.transactional.id",
        "topology.tuple.serializer",
        "topology.version",
    ),
    "flag": (
        "topology.backpressure.enable",
        "topology.debug",
        "topology.disable.loadaware.messaging",
        "topology.enable.message.timeouts",
        "topology.enable.send.iconnection.metrics",
        "topology.enable.v2.metrics.tick",
        "topology.fall.back.on.java.serialization",
        "topology.ras.one.component.per.worker",
        "topology.ras.one.executor.per.worker",
        "topology.serialized.message.size.metrics",
        "topology.skip.missing.kryo.registrations",
        "topology.testing.always.try.serialize",
        "topology.worker.nimbus.thrift.client.use.tls",
    ),
    "integer": (
        "topology.builtin.metrics.bucket.size.secs",
        "topology.error.throttle.interval.secs",
        "topology.tick.tuple.freq.secs",
        "topology.worker.shared.thread.pool.size",
    ),
    "count": (
        "topology.acker.executors",
        "topology.backpressure.wait.progressive.level1.count",
        "topology.backpressure.wait.progressive.level2.count",
        "topology.batch.flush.interval.millis",
        "topology.bolt.wait.progressive.level1.count",
        "topology.bolt.wait.progressive.level2.count",
        "topology.eventlogger.executors",
        "topology.executor.overflow.limit",
        "topology.priority",
        "topology.ras.acker.executors.per.worker",
        "topology.sleep.spout.wait.strategy.time.ms",
        "topology.spout.recvq.skips",
        "topology.spout.wait.progressive.level1.count",
        "topology.spout.wait.progressive.level2.count",
        "topology.tasks",
    ),
    "positive count": (
        "topology.backpressure.check.millis",
        "topology.bolts.tuple.timestamp.max.lag.ms",
        "topology.bolts.watermark.event.interval.ms",
        "topology.bolts.window.length.count",
        "topology.bolts.window.length.duration.ms",
        "topology.bolts.window.sliding.interval.count",
        "topology.bolts.window.sliding.interval.duration.ms",
        "topology.executor.receive.buffer.size",
        "topology.isolate.machines",
        "topology.max.error.report.per.interval",
        "topology.max.spout.pending",
        "topology.max.task.parallelism",
        "topology.message.timeout.secs",
        "topology.producer.batch.size",
        "topology.ras.constraint.max.state.search",
        "topology.ras.constraint.max.time.secs",
        "topology.shellbolt.max.pending",
        "topology.state.checkpoint.interval.ms",
        "topology.state.synchronization.timeout.secs",
        "topology.subprocess.timeout.secs",
        "topology.transfer.batch.size",
        "topology.transfer.buffer.size",
        "topology.trident.batch.emit.interval.millis",
        "topology.trident.windowing.cache.tuple.limit",
        "topology.v2.metrics.tick.interval.seconds",
        "topology.worker.timeout.secs",
        "topology.workers",
    ),
    "number": (
        "topology.max.replication.wait.time.sec",
        "topology.min.replication.count",
    ),
    "amount": (
        "topology.acker.cpu.pcore.percent",
        "topology.acker.resources.offheap.memory.mb",
        "topology.acker.resources.onheap.memory.mb",
        "topology.backpressure.wait.park.microsec",
        "topology.backpressure.wait.progressive.level3.sleep.millis",
        "topology.bolt.wait.park.microsec",
        "topology.bolt.wait.progressive.level3.sleep.millis",
        "topology.component.cpu.pcore.percent",
        "topology.component.resources.offheap.memory.mb",
        "topology.component.resources.onheap.memory.mb",
        "topology.metrics.consumer.cpu.pcore.percent",
        "topology.metrics.consumer.resources.offheap.memory.mb",
        "topology.metrics.consumer.resources.onheap.memory.mb",
        "topology.spout.wait.park.microsec",
        "topology.spout.wait.progressive.level3.sleep.millis",
    ),
    "positive number": (
        "topology.localityaware.higher.bound",
        "topology.localityaware.lower.bound",
        "topology.stats.sample.rate",
        "topology.worker.max.heap.size.mb",
    ),
    "texts": (
        "topology.auto-credentials",
        "topology.auto.task.hooks",
        "topology.kryo.decorators",
        "topology.scheduler.favored.nodes",
        "topology.scheduler.unfavored.nodes",
        "topology.spread.components",
        "topology.state.kryo.register",
    ),
    "text or texts": (
        "topology.classpath",
        "topology.classpath.beginning",
        "topology.groups",
        "topology.readonly.groups",
        "topology.readonly.users",
        "topology.users",
        "topology.worker.childopts",
        "topology.worker.gc.childopts",
        "topology.worker.logwriter.childopts",
    ),
    "texts by name": (
        "topology.environment",
        "topology.worker.metrics",
    ),
    "numbers by name": ("topology.component.resources.map",),
}

#: Keys that have a value if they are given at all.
_NOT_NULL: Final = frozenset(
    {
        "topology.backpressure.check.millis",
        "topology.backpressure.wait.park.microsec",
        "topology.backpressure.wait.progressive.level1.count",
        "topology.backpressure.wait.progressive.level2.count",
        "topology.backpressure.wait.progressive.level3.sleep.millis",
        "topology.batch.flush.interval.millis",
        "topology.bolt.wait.park.microsec",
        "topology.bolt.wait.progressive.level1.count",
        "topology.bolt.wait.progressive.level2.count",
        "topology.bolt.wait.progressive.level3.sleep.millis",
        "topology.disable.loadaware.messaging",
        "topology.executor.overflow.limit",
        "topology.localityaware.higher.bound",
        "topology.localityaware.lower.bound",
        "topology.message.timeout.secs",
        "topology.producer.batch.size",
        "topology.scheduler.strategy",
        "topology.shellbolt.max.pending",
        "topology.spout.recvq.skips",
        "topology.spout.wait.park.microsec",
        "topology.spout.wait.progressive.level1.count",
        "topology.spout.wait.progressive.level2.count",
        "topology.spout.wait.progressive.level3.sleep.millis",
        "topology.state.synchronization.timeout.secs",
        "topology.worker.timeout.secs",
    }
)

_KINDS: Final = {key: kind for kind, keys in _KEYS.items() for key in keys}

_WANTED: Final = {
    "text": "should be a text",
    "flag": "should be true or false",
    "integer": "should be an integer",
    "count": "should be an integer of at least 0",
    "positive count": "should be an integer of at least 1",
    "number": "should be a number",
    "amount": "should be a number of at least 0",
    "positive number": "should be a number above 0",
    "texts": "should be a list of texts",
    "text or texts": "should be a text or a list of texts",
    "texts by name": "should be an object of texts",
    "numbers by name": "should be an object of numbers",
}


def refused_values(conf: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the keys of a topology's configuration with a value that Storm refuses, and the kind that it accepts.

    Parameters
    ----------
    conf
        Configuration as it is submitted, without that of the cluster.
    """
    for key, value in conf.items():
        kind = _KINDS.get(key)
        if value is None and key in _NOT_NULL:
            yield key, "should have a value"
        elif kind is not None and value is not None and not _fits(kind, value):
            yield key, _WANTED[kind]


def _fits(kind: str, value: object) -> bool:
    match kind:
        case "text":
            return isinstance(value, str)
        case "flag":
            return isinstance(value, bool)
        case "integer" | "count" | "positive count":
            least = {"integer": -(2**31), "count": 0, "positive count": 1}[kind]
            if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
                return False
            return value == int(value) and least <= value < 2**31
        case "number" | "amount" | "positive number":
            if isinstance(value, bool) or not isinstance(value, int | float):
                return False
            return kind == "number" or value > 0 or (kind == "amount" and value == 0)
        case "texts":
            return _are_texts(value)
        case "text or texts":
            return isinstance(value, str) or _are_texts(value)
        case "texts by name":
            return isinstance(value, Mapping) and _are_texts(list(value.values()))
        case _:
            return isinstance(value, Mapping) and all(_fits("number", each) for each in value.values())


def _are_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)
