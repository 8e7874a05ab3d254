"""How a load has drifted, in words."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from stormwright.model import Problem
from stormwright.pipeline.monitoring.drift import Drift


def drift_text(drifts: Sequence[Drift], problem: Problem) -> str:
    """What has drifted, as the beginning of a decision's reason; empty where nothing has."""
    return f"load has drifted: {', '.join(_one(drift, problem) for drift in drifts)}" if drifts else ""


def _one(drift: Drift, problem: Problem) -> str:
    since = datetime.fromtimestamp(drift.since_ms / 1000, UTC)
    index = problem.topology_index.get(drift.topology)
    topology = problem.topologies[index] if index is not None else None
    where = topology.name if topology else drift.topology
    if topology and drift.executor is not None:
        where += f"/{topology.components[topology.executor_component[drift.executor]].id}"
    return f"{drift.what} of {where} {100 * drift.change:+.0f} % since {since:%H:%M:%S} UTC"
