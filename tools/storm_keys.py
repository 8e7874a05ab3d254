"""Keys of storm.yaml and of topologies that stormwright reads: where they stand, defaults, meaning.

A test compares this table with the keys that occur in the sources, and Storm's defaults with its ``defaults.yaml``.
"""

from __future__ import annotations

import json
from typing import NamedTuple

#: Where a key may stand.
CLUSTER, NODE, TOPOLOGY, META = "cluster", "node", "topology", "`supervisor.scheduler.meta` of a node"


class Key(NamedTuple):
    """A key of a configuration; `default` is None where there is none, and may be a text in backquotes."""

    name: str
    where: str
    default: object
    meaning: str

    @property
    def default_text(self) -> str:
        """Default as the page shows it."""
        if self.default is None:
            return "none"
        return (
            self.default if isinstance(self.default, str) and " " in self.default else f"`{json.dumps(self.default)}`"
        )


#: Keys of stormwright.
OWN = (
    Key(
        "stormwright.service.url",
        CLUSTER,
        "http://127.0.0.1:7070",
        "Address of the service, or several joined by commas, of which the leading one answers.",
    ),
    Key(
        "stormwright.service.deadline.ms",
        CLUSTER,
        1500,
        "Milliseconds that Nimbus waits for an answer of the service; afterwards the fallback places.",
    ),
    Key(
        "stormwright.fallback",
        CLUSTER,
        "even",
        "Scheduler class that places topologies without slots when the service does not: `even`, `none`, or the name "
        "of an `IScheduler`.",
    ),
    Key(
        "stormwright.token.file",
        f"{CLUSTER}, {TOPOLOGY}",
        None,
        "File with the token that Nimbus (role bridge) and probes (role probe) present to the service.",
    ),
    Key(
        "stormwright.tls.ca",
        f"{CLUSTER}, {TOPOLOGY}",
        "those of the JVM",
        "Authority (PEM) of the service's certificate.",
    ),
    Key("stormwright.tls.cert", f"{CLUSTER}, {TOPOLOGY}", None, "Own certificate (PEM) for the service."),
    Key("stormwright.tls.key", f"{CLUSTER}, {TOPOLOGY}", None, "Private key of that certificate (PEM)."),
    Key(
        "stormwright.probe.service.url",
        TOPOLOGY,
        None,
        "Address to which probes send the performance log, or several joined by commas; without one, records stay in "
        "the spool.",
    ),
    Key(
        "stormwright.probe.interval.ms", TOPOLOGY, 1000, "Length of a measured interval in milliseconds, at least 100."
    ),
    Key(
        "stormwright.probe.spool.dir",
        TOPOLOGY,
        "`stormwright-spool` below `storm.local.dir`",
        "Directory in which records wait until the service has them.",
    ),
    Key(
        "stormwright.probe.spool.max.mb", TOPOLOGY, 256, "Most MB in the spool of a node; the oldest are deleted first."
    ),
    Key(
        "stormwright.max.executors.per.worker",
        TOPOLOGY,
        None,
        "Most executors of the topology in one worker, for every scheduler.",
    ),
    Key("stormwright.slo.p99.ms", TOPOLOGY, None, "Objective: 99th percentile of its complete latency, in ms."),
    Key("stormwright.slo.lag.s", TOPOLOGY, None, "Objective: time by which it may be behind its source, in seconds."),
    Key("stormwright.cores.max", TOPOLOGY, None, "Most cores of the nodes that it may use to hold its objective."),
    Key(
        "stormwright.pinned.keys",
        TOPOLOGY,
        None,
        "List of keys of its configuration that `tune` leaves as they are.",
    ),
    Key(
        "stormwright.weight",
        TOPOLOGY,
        1,
        "Factor of the topology's rate in the objective throughput, a number above 0.",
    ),
    Key(
        "stormwright.workers",
        TOPOLOGY,
        None,
        "How the number of workers is taken: `exactly`, `at_most` or `free`; goes before the parameter `workers` of a "
        "scheduler.",
    ),
    Key(
        "stormwright.heap.headroom",
        f"{CLUSTER}, {TOPOLOGY}",
        1.3,
        "Heap of a worker in parts of its predicted live heap, at least; 0 for no limit.",
    ),
    Key(
        "stormwright.forecast.growth",
        TOPOLOGY,
        1,
        "Forecast load in parts of the measured load, for `predictive`, where there is no forecast.",
    ),
    Key(
        "stormwright.tag.workers",
        TOPOLOGY,
        "by number of executors",
        "Object of tag → number of workers, for `tag_aware`; several tags are joined by commas.",
    ),
    Key("stormwright.alpha", TOPOLOGY, "that of the scheduler", "α of `offline` and `online`, from 0 to 1."),
    Key("stormwright.beta", TOPOLOGY, "that of the scheduler", "β of `offline` and `online`, from 0 to 1."),
    Key("stormwright.gamma", TOPOLOGY, "that of the scheduler", "γ of `online`, at least 1."),
    Key("stormwright.delta", TOPOLOGY, "that of the scheduler", "δ of `online`, from 0 to 1."),
    Key("stormwright.epsilon", TOPOLOGY, "that of the scheduler", "ε of `offline`, from 0 to 1."),
    Key(
        "stormwright.users",
        CLUSTER,
        None,
        "Object of user → limits of all topologies of that user: `executors`, `slots`, `cpu` (percent of a core), "
        "`memory` (MB), and `weight` of the user's share; `*` stands for all others.",
    ),
    Key(
        "stormwright.order",
        CLUSTER,
        "given",
        "Order in which topologies are placed: `given`, `priority`, `first_come`, `shortest_first`, `fair_share` or "
        "`pools`.",
    ),
    Key(
        "stormwright.backfill",
        CLUSTER,
        "that of the scheduler",
        "Whether a topology that fits goes ahead of one that does not: `true` or `false`.",
    ),
    Key(
        "stormwright.java.time.limit.s",
        CLUSTER,
        1800,
        "Seconds that a Java scheduler (`java:CLASS`) has for one problem.",
    ),
    Key(
        "stormwright.overload_s",
        META,
        "that of `--overload`",
        "Seconds of overload of this node after which that alone justifies a move.",
    ),
    Key(
        "stormwright.link",
        META,
        None,
        "Speed of the node's network link as `tc` writes it (`40mbit`, `1gbit`), for predictions; without it there is "
        "no limit.",
    ),
    Key(
        "stormwright.thrift.port",
        META,
        "`supervisor.thrift.port` of Nimbus",
        "Port of the supervisor's Thrift server where it has another one, as when supervisors share a machine.",
    ),
    Key(
        "stormwright.racks",
        CLUSTER,
        None,
        "Rack of each host, as a map, for `storm.network.topography.plugin: stormwright.RackMapping` on Nimbus; hosts "
        "without one are in Storm's default rack.",
    ),
    Key(
        "stormwright.rate.file",
        TOPOLOGY,
        None,
        "File whose number is the rate of the spouts of the benchmark topologies; it is read while they run.",
    ),
    Key(
        "stormwright.ledger.directory",
        TOPOLOGY,
        None,
        "Directory in which the benchmark topology `ledger` stores its tuples.",
    ),
)

#: Keys of Storm.
STORMS = (
    Key(
        "storm.scheduler",
        CLUSTER,
        None,
        "Scheduler of Nimbus; `stormwright.PlacementScheduler` for placements of the service.",
    ),
    Key("nimbus.seeds", CLUSTER, ["localhost"], "Hosts of Nimbus, of which `doctor` looks for one that answers."),
    Key("nimbus.thrift.port", CLUSTER, 6627, "Port of Nimbus."),
    Key(
        "nimbus.monitor.freq.secs",
        CLUSTER,
        10,
        "Seconds between two rounds of scheduling; `doctor` reports a long one.",
    ),
    Key(
        "nimbus.even.rebalance.idle.supervisor.enabled",
        CLUSTER,
        None,
        "Storm 3: whether EvenScheduler moves running workers to idle nodes; the fallback disables it.",
    ),
    Key(
        "supervisor.localizer.update.blob.interval.secs",
        NODE,
        30,
        "Seconds between two looks of a supervisor for other configurations; a change by `tune` waits for one.",
    ),
    *(
        Key(name, where, default, f"{meaning}; `install --short-times` sets it.")
        for name, where, default, meaning in (
            (
                "storm.zookeeper.session.timeout",
                CLUSTER,
                20_000,
                "Milliseconds after which a node or Nimbus that is silent counts as dead",
            ),
            ("supervisor.worker.start.timeout.secs", NODE, 120, "Seconds that a supervisor waits for a new worker"),
            ("supervisor.monitor.frequency.secs", NODE, 3, "Seconds between two looks of a supervisor at its workers"),
        )
    ),
    *(
        Key(name, TOPOLOGY, default, "Read by workers at their start; `tune` changes it.")
        for name, default in (
            ("topology.acker.cpu.pcore.percent", None),
            ("topology.acker.resources.onheap.memory.mb", None),
            ("topology.backpressure.check.millis", 50),
            ("topology.debug", False),
            ("topology.executor.overflow.limit", 0),
            ("topology.shellbolt.max.pending", 100),
            ("topology.spout.recvq.skips", 3),
            ("topology.stats.sample.rate", 0.05),
            ("topology.trident.batch.emit.interval.millis", 500),
        )
    ),
    Key("storm.zookeeper.servers", CLUSTER, ["localhost"], "ZooKeeper that elects the leader with `--pair storm`."),
    Key("storm.zookeeper.port", CLUSTER, 2181, "Its port."),
    Key(
        "storm.zookeeper.root",
        CLUSTER,
        "/storm",
        "Path of the cluster in ZooKeeper, which is part of the service's own.",
    ),
    Key("storm.zookeeper.ssl.enable", CLUSTER, False, "Whether ZooKeeper needs TLS; `--pair-tls-ca` is then required."),
    Key("storm.local.dir", NODE, "storm-local", "Directory of a daemon; the probe's spool is below it."),
    Key("storm.local.hostname", NODE, None, "Host name of a supervisor in a problem imported from its storm.yaml."),
    Key("storm.worker.min.cpu.pcore.percent", CLUSTER, 0.0, "Least CPU of a worker, for ResourceAwareScheduler."),
    Key(
        "task.refresh.poll.secs", CLUSTER, 10, "Seconds after which workers know a new placement; moves wait that long."
    ),
    Key(
        "isolation.scheduler.machines",
        CLUSTER,
        None,
        "Topology → hosts of its own, for IsolationScheduler; such topologies are not moved.",
    ),
    Key("multitenant.scheduler.user.pools", CLUSTER, None, "User → nodes, for MultitenantScheduler."),
    Key(
        "resource.aware.scheduler.user.pools",
        CLUSTER,
        None,
        "User → guaranteed CPU and memory, for ResourceAwareScheduler and `stormwright.order: pools`.",
    ),
    Key("supervisor.slots.ports", NODE, [6700, 6701, 6702, 6703], "Ports of the node's worker slots."),
    Key("supervisor.cpu.capacity", NODE, 400.0, "CPU of the node in percent of a core."),
    Key("supervisor.memory.capacity.mb", NODE, 4096.0, "Memory of the node in MB."),
    Key(
        "supervisor.resources.map",
        NODE,
        None,
        "Amounts of the node by resource, such as GPUs; goes before the two above.",
    ),
    Key("supervisor.scheduler.meta", NODE, None, "Object of the node for schedulers: tags, prices, processors."),
    Key(
        "supervisor.worker.shutdown.sleep.secs",
        NODE,
        3,
        "Seconds that a worker has to end; the probe sends its last records within them.",
    ),
    Key("worker.childopts", NODE, "`-Xmx%HEAP-MEM%m …`", "JVM options of workers; the heap is read from them."),
    Key("worker.gc.childopts", NODE, "", "Further JVM options of workers."),
    Key("worker.heap.memory.mb", NODE, 768, "Heap of a worker whose executors request none, in MB."),
    Key("topology.worker.childopts", TOPOLOGY, None, "JVM options of the topology's workers."),
    Key("topology.worker.gc.childopts", TOPOLOGY, None, "Further JVM options, instead of the node's."),
    Key("topology.worker.max.heap.size.mb", TOPOLOGY, 768.0, "Most heap of a worker, for ResourceAwareScheduler."),
    Key("topology.workers", TOPOLOGY, 1, "Number of workers."),
    Key("topology.tasks", TOPOLOGY, None, "Number of tasks of a component."),
    Key("topology.max.task.parallelism", TOPOLOGY, None, "Most executors of a component."),
    Key("topology.acker.executors", TOPOLOGY, None, "Number of ackers; one for each worker by default."),
    Key("topology.ras.acker.executors.per.worker", TOPOLOGY, 1, "Ackers of each worker, for ResourceAwareScheduler."),
    Key("topology.eventlogger.executors", TOPOLOGY, 0, "Number of event loggers."),
    Key("topology.metrics.consumer.register", TOPOLOGY, None, "Consumers of metrics, each a component of its own."),
    Key("topology.auto.task.hooks", TOPOLOGY, None, "Task hooks; `[stormwright.ExecutorProbe]` is the probe."),
    Key("topology.priority", TOPOLOGY, 29, "Priority, the lower the more urgent, for `stormwright.order: priority`."),
    Key("topology.submitter.user", TOPOLOGY, None, "User that owns the topology, where Storm names none."),
    Key("topology.scheduler.favored.nodes", TOPOLOGY, None, "Hosts that `r_storm` and Storm's own schedulers prefer."),
    Key("topology.scheduler.unfavored.nodes", TOPOLOGY, None, "Hosts that they avoid."),
    Key(
        "topology.scheduler.strategy",
        TOPOLOGY,
        "Storm's DefaultResourceAwareStrategy",
        "Strategy of `java:ResourceAwareScheduler`.",
    ),
    Key(
        "topology.component.cpu.pcore.percent", TOPOLOGY, 10.0, "CPU that each executor requests, in percent of a core."
    ),
    Key(
        "topology.component.resources.onheap.memory.mb",
        TOPOLOGY,
        128.0,
        "Memory on the heap that each requests, in MB.",
    ),
    Key(
        "topology.component.resources.offheap.memory.mb",
        TOPOLOGY,
        0.0,
        "Memory off the heap that each requests, in MB.",
    ),
    Key("topology.component.resources.map", TOPOLOGY, None, "Requests by resource; generic resources are hard limits."),
    Key("topology.ras.constraints", TOPOLOGY, None, "Incompatible components, and most executors of one per node."),
    Key(
        "topology.spread.components",
        TOPOLOGY,
        None,
        "Components of which a node gets one executor; deprecated by Storm.",
    ),
    Key("topology.ras.one.executor.per.worker", TOPOLOGY, False, "Whether each worker has one executor."),
    Key("topology.ras.one.component.per.worker", TOPOLOGY, False, "Whether each worker has one component."),
    Key("topology.max.spout.pending", TOPOLOGY, None, "Most pending tuples of a spout task: predictions, and drains."),
    Key("topology.bolt.wait.progressive.level2.count", TOPOLOGY, 1000, "Parks of an idle bolt before it sleeps."),
    Key("topology.producer.batch.size", TOPOLOGY, 1, "Tuples sent together: named if no batch can fill or be taken."),
    Key("topology.transfer.batch.size", TOPOLOGY, 1, "The same, of tuples to other workers."),
    Key("topology.batch.flush.interval.millis", TOPOLOGY, 1, "Milliseconds after which a batch is sent, full or not."),
    Key("topology.message.timeout.secs", TOPOLOGY, 30, "Seconds after which a tuple fails, in simulations."),
    Key("topology.enable.message.timeouts", TOPOLOGY, True, "Whether tuples fail by time, in simulations."),
    Key("topology.disable.loadaware.messaging", TOPOLOGY, False, "Whether shuffles ignore load, in simulations."),
    Key(
        "topology.localityaware.higher.bound",
        TOPOLOGY,
        0.8,
        "Load above which a shuffle leaves a scope for a wider one.",
    ),
    Key("topology.localityaware.lower.bound", TOPOLOGY, 0.2, "Load below which it returns."),
    Key("topology.executor.receive.buffer.size", TOPOLOGY, 32768, "Slots of an executor's queue: most waiting tuples."),
    Key("topology.transfer.buffer.size", TOPOLOGY, 1000, "Slots of a worker's transfer queue, in simulations."),
    Key("topology.state.provider", TOPOLOGY, None, "State of stateful bolts, which decides the kind of moves."),
    Key(
        "topology.state.checkpoint.interval.ms",
        TOPOLOGY,
        1000,
        "Milliseconds between checkpoints, for that kind of move.",
    ),
)
