"""Immutable data that crosses between packages; no I/O."""

from stormwright.model.answer import Assignment
from stormwright.model.assignment import UNPLACED, TopologyAssignment, Unplaced
from stormwright.model.cluster import Supervisor, WorkerSlot
from stormwright.model.constraints.violations import violations
from stormwright.model.cost import Cost, CostWeights, cost_of, cost_under
from stormwright.model.diff import AssignmentDiff, diff
from stormwright.model.load import LoadProfile, TopologyLoad, assumed_load
from stormwright.model.problem import Problem
from stormwright.model.scheduler import Scheduler
from stormwright.model.topology import Component, ExecutorRun, Grouping, Topology, default_executor_runs
from stormwright.model.traffic_matrix import Traffic, measured_traffic, traffic_under

__all__ = [
    "UNPLACED",
    "Assignment",
    "AssignmentDiff",
    "Component",
    "Cost",
    "CostWeights",
    "ExecutorRun",
    "Grouping",
    "LoadProfile",
    "Problem",
    "Scheduler",
    "Supervisor",
    "Topology",
    "TopologyAssignment",
    "TopologyLoad",
    "Traffic",
    "Unplaced",
    "WorkerSlot",
    "assumed_load",
    "cost_of",
    "cost_under",
    "default_executor_runs",
    "diff",
    "measured_traffic",
    "traffic_under",
    "violations",
]
