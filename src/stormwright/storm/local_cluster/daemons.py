"""Configuration (storm.yaml) and start commands of a local cluster's daemons.

Storm's defaults are made for machines that are left alone for months. Here a topology is placed, watched and moved
within minutes, by a machine that may have two cores; every departure is listed here with its reason.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from stormwright.model.cluster import LINK
from stormwright.storm.gateway import THRIFT_PORT_META
from stormwright.storm.jvm import FULL, LIGHT, STORM_HOME, STORMWRIGHT_JAR, WORKER_ARCHIVE, WORKER_CLASSES, java_command
from stormwright.storm.local_cluster.plan import ClusterPlan, Node

#: Directory of the master's daemons, and of what runs beside them.
NIMBUS = "nimbus"
ZOOKEEPER = "zookeeper"

_LOG4J2 = Path(__file__).parent / "log4j2"
_WORKER_JAVA = Path(__file__).parents[1] / "worker_java.sh"
_HEAP_MB = {ZOOKEEPER: 128, NIMBUS: 256, "supervisor": 160}


#: Memory of a standby worker, which is no more there for workers.
_STANDBY_MB = 140

_MAIN = {
    # Not DevZookeeper, which deletes its data when it starts: one that is killed is to know the topologies afterwards.
    ZOOKEEPER: "org.apache.storm.shade.org.apache.zookeeper.server.ZooKeeperServerMain",
    NIMBUS: "org.apache.storm.daemon.nimbus.Nimbus",
    "supervisor": "org.apache.storm.daemon.supervisor.Supervisor",
}

#: Twenty ticks are the longest session that ZooKeeper grants.
_TICK_MS = "2000"

#: Its administration listens on a port of the whole machine.
_ZOOKEEPER_PROPERTIES = {"zookeeper.admin.enableServer": "false"}

_TIMING = {
    # Nimbus schedules this often when nothing happens; a rebalance schedules at once.
    "nimbus.monitor.freq.secs": 5,
    # How long a slot that runs a worker may take to see that it has to stop.
    "supervisor.monitor.frequency.secs": 1,
    # A stopped worker gets this long to end: time for the probe's last record. A slot is free only then.
    "supervisor.worker.shutdown.sleep.secs": 1,
    # Workers that stay learn of the new addresses of those that moved only by this poll.
    "task.refresh.poll.secs": 1,
    # Supervisors learn of other configurations of topologies only by this poll.
    "supervisor.localizer.update.blob.interval.secs": 2,
    # The machine may be so loaded that a healthy process is not heard of for a while; none shall be restarted for that.
    "supervisor.worker.timeout.secs": 60,
    "nimbus.task.timeout.secs": 60,
    "storm.zookeeper.session.timeout": 40_000,
    # Nor shall a node be left out for half an hour because it or one of its workers was not heard of three times.
    "blacklist.scheduler.tolerance.count": 1_000,
}


def storm_conf(plan: ClusterPlan, daemon: str) -> dict[str, Any]:
    """Return the configuration of one daemon: ``"nimbus"``, ``"zookeeper"`` or a node's name."""
    config = plan.config
    home = plan.daemon_dir(daemon)
    conf: dict[str, Any] = {
        "storm.zookeeper.servers": [plan.nimbus_host],
        "storm.zookeeper.port": plan.zookeeper_port,
        "nimbus.seeds": [plan.nimbus_host],
        "nimbus.thrift.port": plan.nimbus_port,
        "storm.local.dir": str(home / "local"),
        "storm.workers.artifacts.dir": str(home / "logs" / "workers"),
        "storm.metricstore.rocksdb.location": str(home / "metrics"),
        "storm.log4j2.conf.dir": str(_LOG4J2),
        "storm.local.hostname": plan.nimbus_host,
        **_TIMING,
        "worker.heap.memory.mb": 384,
        "worker.childopts": [*_worker_flags(plan, daemon), *_archive(), "-Xmx%HEAP-MEM%m"],
        "topology.worker.max.heap.size.mb": 384.0,
        "stormwright.service.url": f"http://{plan.service_host}:{config.service_port}",
        "stormwright.probe.service.url": f"http://{plan.service_host}:{config.service_port}",
    }
    if config.scheduler:
        conf["storm.scheduler"] = "stormwright.PlacementScheduler"
    if config.racks:
        conf["storm.network.topography.plugin"] = "stormwright.RackMapping"
        conf["stormwright.racks"] = {node.address: node.rack for node in plan.nodes}
    if plan.is_node(daemon):
        conf |= _supervisor_conf(plan, plan.node(daemon))
    return conf | dict(config.storm_conf)


def _worker_flags(plan: ClusterPlan, daemon: str) -> Sequence[str]:
    """Return JVM flags of a node's workers; below one core the second compiler costs more than it gains."""
    cores = plan.node(daemon).cores if plan.is_node(daemon) else None
    return LIGHT if cores is not None and cores < 1 else FULL


def _archive() -> list[str]:
    return [f"-XX:SharedArchiveFile={WORKER_ARCHIVE}", "-Xlog:disable"] if WORKER_ARCHIVE.exists() else []


def _supervisor_conf(plan: ClusterPlan, node: Node) -> dict[str, Any]:
    link = {LINK: node.link} if node.link else {}
    return {
        "storm.local.hostname": node.address,
        "supervisor.slots.ports": list(node.ports),
        "supervisor.thrift.port": node.thrift_port,
        "supervisor.scheduler.meta": {THRIFT_PORT_META: str(node.thrift_port), **link},
        "supervisor.cpu.capacity": node.declared_cores * 100.0,
        "supervisor.memory.capacity.mb": plan.config.memory_mb_per_node - _STANDBY_MB * plan.config.standbys,
    }


def write_homes(plan: ClusterPlan) -> None:
    """Create every daemon's directory with a storm.yaml, and copy our files for the cluster's life."""
    plan.lib.mkdir(parents=True)
    shutil.copy2(STORMWRIGHT_JAR, plan.lib)
    worker_java = _worker_java(plan)
    worker_java.parent.mkdir(parents=True)
    shutil.copy(_WORKER_JAVA, worker_java)
    worker_java.chmod(0o755)
    for daemon in names(plan):
        home = plan.daemon_dir(daemon)
        for part in ("conf", "logs", "tmp"):
            (home / part).mkdir(parents=True)
        # JSON values are YAML values.
        lines = [f"{key}: {json.dumps(value)}\n" for key, value in storm_conf(plan, daemon).items()]
        (home / "conf" / "storm.yaml").write_text("".join(lines), encoding="utf-8")
        if plan.is_node(daemon) and plan.config.standbys and WORKER_CLASSES.exists():
            _write_standby_options(plan, daemon)


def _write_standby_options(plan: ClusterPlan, node: str) -> None:
    """Write the options that a node's first worker will have, so that a standby is loaded before it starts."""
    own = [option for option in storm_conf(plan, node)["worker.childopts"] if not option.startswith("-Xmx")]
    log = f"-Dlog4j.configurationFile={_LOG4J2 / 'worker.xml'}"
    flags = "".join(f"{flag}\n" for flag in ("-server", log, *own, "-Dstorm.conf.file=", "-Dstorm.options="))
    parts = (
        STORM_HOME / "lib-worker" / "*",
        STORM_HOME / "extlib" / "*",
        plan.lib / "*",
        plan.daemon_dir(node) / "conf",
    )
    class_path = ":".join(map(str, parts))
    checksum = subprocess.run(
        ["cksum"], input=f"{flags}{class_path}", capture_output=True, text=True, check=True
    ).stdout.split()
    options = plan.daemon_dir(node) / "standby" / "options" / "-".join(checksum)
    options.mkdir(parents=True)
    (options.parents[1]).chmod(0o700)
    (options / "flags").write_text(flags, encoding="utf-8")
    (options / "class_path").write_text(f"{class_path}\n", encoding="utf-8")
    (options / "heap").write_text(f"{plan.config.memory_mb_per_node:.0f}m\n", encoding="utf-8")
    (options / "classes").symlink_to(WORKER_CLASSES)


def _worker_java(plan: ClusterPlan) -> Path:
    return plan.worker_java_home / "bin" / "java"


def names(plan: ClusterPlan) -> tuple[str, ...]:
    """Return names of all daemons in the order of their start; a supervisor has the name of its node."""
    return (ZOOKEEPER, NIMBUS, *(node.name for node in plan.nodes))


def command(plan: ClusterPlan, daemon: str) -> list[str]:
    """Return the command of a daemon."""
    home = plan.daemon_dir(daemon)
    kind = daemon if daemon in _MAIN else "supervisor"
    return java_command(
        # A supervisor is started as its workers are, so that standbys of its node begin with it.
        str(_worker_java(plan)) if plan.is_node(daemon) else plan.java,
        main=_MAIN[kind],
        class_path=[STORM_HOME / "lib" / "*", plan.lib / "*", home / "conf"],
        flags=LIGHT,
        heap_mb=_HEAP_MB[kind],
        properties={
            "storm.home": STORM_HOME,
            "storm.log.dir": home / "logs",
            "logfile.name": "daemon.log",
            "log4j.configurationFile": _LOG4J2 / "cluster.xml",
            "java.io.tmpdir": home / "tmp",
            **(_ZOOKEEPER_PROPERTIES if daemon == ZOOKEEPER else {}),
        },
        args=(str(plan.zookeeper_port), str(home / "data"), _TICK_MS) if daemon == ZOOKEEPER else (),
    )


def environment(plan: ClusterPlan, daemon: str) -> Mapping[str, str]:
    """Return the environment of a daemon; supervisors pass it on to their workers."""
    return {
        # Instead of STORM_HOME/conf, which all nodes share, and STORM_HOME/extlib.
        "STORM_CONF_DIR": str(plan.daemon_dir(daemon) / "conf"),
        "STORM_EXT_CLASSPATH": str(plan.lib / "*"),
        # Supervisors start workers with the java in it.
        "JAVA_HOME": str(plan.worker_java_home),
        "STORMWRIGHT_JAVA": plan.java,
        "STORMWRIGHT_STANDBYS": str(plan.config.standbys),
        "STORMWRIGHT_STANDBY_DIR": str(plan.daemon_dir(daemon) / "standby"),
    }


def client_command(
    plan: ClusterPlan, main: str, args: Sequence[str] = (), jars: Sequence[Path] = (), **properties: object
) -> list[str]:
    """Return the command of a Storm client that runs beside Nimbus.

    Parameters
    ----------
    plan
        Plan of the cluster.
    main
        Class to run: one with the ``main`` of a topology, or the Nimbus gateway.
    args
        Arguments of the class.
    jars
        Jars beside Storm's and ours.
    **properties
        System properties beside our own, over which they win.
    """
    home = plan.daemon_dir(NIMBUS)
    return java_command(
        plan.java,
        main=main,
        class_path=[STORM_HOME / "lib" / "*", plan.lib / "*", *jars, home / "conf"],
        flags=LIGHT,
        heap_mb=128,
        properties={"log4j.configurationFile": _LOG4J2 / "client.xml", "java.io.tmpdir": home / "tmp", **properties},
        args=args,
    )
