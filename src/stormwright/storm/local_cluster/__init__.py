"""A real Storm cluster on this machine: ZooKeeper, Nimbus, and a supervisor on each of a few nodes."""

from stormwright.storm.local_cluster.cluster import LocalCluster, stop_running, why_no_cpu_limits
from stormwright.storm.local_cluster.cpu import NodeCpu, fitting_cores
from stormwright.storm.local_cluster.plan import LocalClusterConfig
from stormwright.storm.local_cluster.running import LinkBytes, RunningCluster

__all__ = [
    "LinkBytes",
    "LocalCluster",
    "LocalClusterConfig",
    "NodeCpu",
    "RunningCluster",
    "fitting_cores",
    "stop_running",
    "why_no_cpu_limits",
]
