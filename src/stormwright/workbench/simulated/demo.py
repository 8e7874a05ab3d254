"""The main job from end to end on a virtual cluster."""

from __future__ import annotations

from stormwright.storm.local_cluster import LocalClusterConfig
from stormwright.workbench.demo.result import DemoResult
from stormwright.workbench.demo.run import demo_cluster, run_demo_on
from stormwright.workbench.demo.settings import CORES, LINK, DemoSettings
from stormwright.workbench.simulated.cluster import SimulatedCluster


def virtual_cluster(nodes: int, slots: int, link: str | None, cores_per_node: float | None) -> LocalClusterConfig:
    """Size and limits of a virtual cluster, by default those of the demonstration, whatever this machine has.

    Parameters
    ----------
    nodes, slots
        How many, and worker slots of each.
    link
        Speed of each node's link; None for that of the demonstration.
    cores_per_node
        Cores of each; None for those of the demonstration, 0 for two.

    Raises
    ------
    InputError
        A size makes no sense.
    """
    cores = CORES if cores_per_node is None else cores_per_node or None
    return demo_cluster(nodes=nodes, slots=slots, link=link or LINK, cores_per_node=cores)


def run_simulated(settings: DemoSettings) -> DemoResult:
    """Run the demonstration in virtual time.

    Raises
    ------
    InputError
        A topology cannot be simulated.
    ClusterError
        The pipeline does not keep up, or measured no load.
    MoveError
        A topology could not be drained.
    """
    cluster = SimulatedCluster(settings.cluster, settings.submissions, settings.probe_interval_ms)
    return run_demo_on(cluster, settings, cluster)
