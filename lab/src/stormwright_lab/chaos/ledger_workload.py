"""The ledger workload on a cluster: its arguments, and its submission."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stormwright.storm.local_cluster import RunningCluster
from stormwright_lab.chaos.ledger_files import LedgerKind

#: Main class of the workload.
LEDGER_CLASS = "stormwright.topologies.Ledger"


@dataclass(frozen=True)
class LedgerWorkload:
    """A topology of numbered tuples that records them in a directory.

    Parameters
    ----------
    directory
        An absolute path that all nodes share; it holds one ledger. A workload of the same kind, keys and executors goes
        on with the numbers there.
    kind
        How numbers are processed.
    name
        Name of the topology.
    rate_tps
        Tuples/s of all spout tasks together.
    workers
        Number of workers that the topology requests from Storm.
    options
        Further arguments of the topology, such as ``{"numbers": 1000}``; see ``Ledger.java``.
    """

    directory: Path
    kind: LedgerKind = LedgerKind.DRAIN
    name: str = "ledger"
    rate_tps: float = 1000.0
    workers: int = 3
    options: Mapping[str, object] = field(default_factory=dict)

    def arguments(self) -> list[str]:
        """Return the arguments of the topology's ``main``."""
        values = {
            "kind": self.kind.value,
            "name": self.name,
            "directory": self.directory.absolute(),
            "rate": self.rate_tps,
            "workers": self.workers,
            **self.options,
        }
        return [f"{name}={value}" for name, value in values.items()]

    def submit(self, cluster: RunningCluster, conf: Mapping[str, Any] | None = None) -> None:
        """Submit the topology to a local cluster.

        Parameters
        ----------
        cluster
            Running local cluster, whose copy of our jar has the topology.
        conf
            Topology configuration that wins over the workload's own.

        Raises
        ------
        ClusterError
            If it fails, with Java's message.
        """
        cluster.run_topology(LEDGER_CLASS, self.arguments(), conf)
