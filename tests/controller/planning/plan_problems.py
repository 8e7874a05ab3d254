"""Random pairs of placements on full nodes, and a plain judge of plans that lead from one to the other."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from stormwright.controller.planning.order import MoveOrder
from stormwright.model import Assignment, LoadProfile, Problem, Supervisor, Topology, TopologyAssignment
from stormwright.model.load import assumed_load
from tests.controller.builders import topology


def random_placement(problem: Problem, rng: np.random.Generator, workers: list[int]) -> np.ndarray | None:
    """A number of workers of each topology, of equal size, in random order, where there is room; None if that fails."""
    slots = np.full(problem.num_executors, -1, dtype=np.int32)
    left = {node.id: [len(node.ports), node.cpu_hz, node.memory_mb] for node in problem.supervisors}
    ports = {node.id: list(rng.permutation(node.ports)) for node in problem.supervisors}
    tenants: defaultdict[str, set[str]] = defaultdict(set)
    machines = problem.conf.get("isolation.scheduler.machines", {})
    for index in rng.permutation(len(problem.topologies)).tolist():
        of, own = problem.topologies[index], problem.executors_of(index)
        spouts = defaultdict(int)
        for members in np.array_split(rng.permutation(of.num_executors), workers[index]):
            demand = [1, *problem.executor_demand[:2, own][:, members].sum(axis=1)]
            here = int(np.count_nonzero(of.executor_component[members] == 0))
            for node in rng.permutation([node.id for node in problem.supervisors]).tolist():
                apart = not (tenants[node] - {of.name}) or not ({of.name, *tenants[node]} & set(machines))
                crowded = "topology.spread.components" in of.conf and here + spouts[node] > 1
                if apart and not crowded and all(h >= d for h, d in zip(left[node], demand, strict=True)):
                    break
            else:
                return None
            left[node] = [h - d for h, d in zip(left[node], demand, strict=True)]
            tenants[node].add(of.name)
            spouts[node] += here
            slot = problem.slot_index[node, int(ports[node].pop())]
            slots[own.start + members] = slot
    if any(len({n.id for n in problem.supervisors if name in tenants[n.id]}) > most for name, most in machines.items()):
        return None
    return slots


def random_problem(seed: int) -> tuple[Problem, Assignment]:
    """Up to nine topologies on up to seven nodes, of which little is free, and where they shall be."""
    rng = np.random.default_rng(seed)
    while True:
        spread = {"topology.spread.components": ["a-spout"]}
        topologies = [
            _with_conf(
                topology(f"t{i}", spouts=int(rng.integers(1, 3)), bolts=3, workers=int(rng.integers(1, 4))),
                spread if rng.random() < 0.2 else {},
            )
            for i in range(int(rng.integers(2, 10)))
        ]
        nodes = tuple(
            Supervisor(
                f"n{i}",
                f"host{i}",
                tuple(range(6700, 6700 + int(rng.integers(1, 5)))),
                cpu_hz=float(rng.integers(2, 5)) * 0.9e9,
                resources={"memory.mb": float(rng.integers(2, 8)) * 256},
            )
            for i in range(int(rng.integers(2, 8)))
        )
        loads = {t.id: assumed_load(t, 3e9) for t in topologies}
        conf = {}
        if rng.random() < 0.2:
            conf = {"storm.scheduler": "stormwright.PlacementScheduler", "isolation.scheduler.machines": {"t0": 2}}
        empty = Problem(nodes, tuple(topologies), load=LoadProfile(loads), conf=conf)
        now = [of.num_workers for of in topologies]
        wished = [int(rng.integers(1, 4)) if rng.random() < 0.3 else of.num_workers for of in topologies]
        sides = [random_placement(empty, rng, workers) for workers in (now, wished)]
        if sides[0] is not None and sides[1] is not None:
            return empty.with_current(Assignment(sides[0]).by_topology(empty)), Assignment(sides[1])


def _with_conf(of: Topology, conf: dict[str, object]) -> Topology:
    return Topology(of.id, of.name, of.num_workers, of.components, of.executor_runs, conf=conf)


class PlacementJudge:
    """Follows a plan leg by leg, by name, and remembers everything that Storm or a limit would forbid."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.runs: dict[str, TopologyAssignment] = dict(problem.current)
        self.faults: list[str] = []

    def follow(self, plan: MoveOrder) -> PlacementJudge:
        """Make all steps."""
        for step in plan.steps:
            for number in range(max(len(move.legs) for move in step.moves)):
                legs = {move.topology: move.legs[number] for move in step.moves}
                before = self._in_use()
                others = {slot for t, runs in self.runs.items() if t not in legs for slot in runs.slots}
                held = {t: set(self.runs[t].slots) for t in legs}
                for name, leg in legs.items():
                    if others & set(leg.after.slots):
                        self.faults.append(f"{name} goes to a slot of another")
                    if len(legs) == 1 and not set(leg.unchanged_workers) <= held[name]:
                        self.faults.append(f"{name} keeps what it has not")
                    others |= set(leg.after.slots)
                    self.runs[name] = leg.after
                self._judge(before)
            for move in step.moves:
                if self.runs[move.topology] != move.after:
                    self.faults.append(f"{move.topology} is not where its move ends")
        return self

    def _in_use(self) -> dict[tuple[str, str], float]:
        used: defaultdict[tuple[str, str], float] = defaultdict(float)
        for index, of in enumerate(self.problem.topologies):
            demand = self.problem.executor_demand[:, self.problem.executors_of(index)]
            runs = self.runs[of.id]
            for executor, slot in enumerate(runs.slot_of_executor):
                used[runs.slots[slot].supervisor, "CPU"] += demand[0, executor]
                used[runs.slots[slot].supervisor, "memory"] += demand[1, executor]
        return used

    def _judge(self, before: dict[tuple[str, str], float]) -> None:
        for (node, resource), amount in self._in_use().items():
            has = self.problem.supervisors[self.problem.node_index[node]]
            most = max(has.cpu_hz if resource == "CPU" else has.memory_mb, before.get((node, resource), 0.0))
            if amount > most * (1 + 1e-6):
                self.faults.append(f"{node}: {resource} {amount} of {most}")
        machines = self.problem.conf.get("isolation.scheduler.machines", {})
        for of in self.problem.topologies:
            runs = self.runs[of.id]
            where = {slot.supervisor for slot in runs.slots}
            for other in self.problem.topologies:
                shared = where & {slot.supervisor for slot in self.runs[other.id].slots}
                if of.name in machines and other is not of and shared:
                    self.faults.append(f"{of.id}: isolated, shares with {other.id}")
            if "topology.spread.components" in of.conf:
                spouts = [
                    runs.slots[runs.slot_of_executor[e]].supervisor for e in np.flatnonzero(of.executor_component == 0)
                ]
                if len(set(spouts)) < len(spouts):
                    self.faults.append(f"{of.id}: spouts together")

    def arrived(self, wanted: Assignment) -> set[str]:
        """Topologies (ids) of which every executor is on the node that it was wished on."""
        found = set()
        for index, of in enumerate(self.problem.topologies):
            runs = self.runs[of.id]
            target = wanted.slot_of_executor[self.problem.executors_of(index)].tolist()
            nodes = [runs.slots[slot].supervisor for slot in runs.slot_of_executor]
            if nodes == [self.problem.slots[slot].supervisor for slot in target]:
                found.add(of.id)
        return found
