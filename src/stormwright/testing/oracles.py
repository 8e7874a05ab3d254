"""Oracles of traffic, cost and constraints by plain loops over names: slow, and independent of the model."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, product
from typing import Any

from stormwright.model import Problem, Topology, TopologyLoad

CLASS_WEIGHTS = {"executor": 0.0, "worker": 0.0, "node": 0.2, "rack": 1.0, "cluster": 2.0, "nowhere": 0.0}

#: Relative rounding error of a flow.
ROUNDING = 1e-12


def executors(problem: Problem) -> list[tuple[str, int]]:
    """Return every executor as (topology id, number within it), in the model's order."""
    return [
        (topology.id, number)
        for topology in problem.topologies
        for number in range(sum(run.count for run in topology.executor_runs))
    ]


def traffic(problem: Problem, slots: Sequence[int]) -> dict[tuple[int, int], float]:
    """Return (source, target) executor → tuples/s, under the placement `slots` (slot indices, -1 for none)."""
    found: dict[tuple[int, int], float] = defaultdict(float)
    first = 0
    for topology, load in zip(problem.topologies, problem.loads, strict=True):
        components = [run.component for run in topology.executor_runs for _ in range(run.count)]
        for source, target, tps in zip(load.pair_source, load.pair_target, load.pair_tps, strict=True):
            found[first + int(source), first + int(target)] += float(tps)
        for component in range(len(topology.components)):
            targets = [first + e for e, c in enumerate(components) if c == component]
            flows = [
                (first + source, g, tps) for source, to, g, tps in _flows(load) if to == component and targets and tps
            ]
            for source, grouping, tps in flows:
                if grouping == "local_or_shuffle":
                    _send(found, source, tps, _near(problem, slots, source, targets, "worker") or targets)
            shuffled = [(source, tps) for source, grouping, tps in flows if grouping != "local_or_shuffle"]
            if shuffled:
                limit = float("inf") if load.flow_limit_tps is None else float(load.flow_limit_tps[component])
                limit = max(limit, sum(tps for _, tps in shuffled) / len(targets))
                for source, target, tps in _shuffled(problem, slots, shuffled, targets, limit):
                    found[source, target] += tps
        first += len(components)
    return dict(found)


def _flows(load: TopologyLoad) -> Iterator[tuple[int, int, str, float]]:
    for source, component, grouping, tps in zip(
        load.flow_source, load.flow_component, load.flow_grouping, load.flow_tps, strict=True
    ):
        yield int(source), int(component), grouping, float(tps)


def _send(found: dict[tuple[int, int], float], source: int, tps: float, targets: list[int]) -> None:
    for target in targets:
        found[source, target] += tps / len(targets)


def _near(problem: Problem, slots: Sequence[int], source: int, targets: list[int], scope: str) -> list[int]:
    return [t for t in targets if distance(problem, slots, source, t) in _within(scope)]


def _shuffled(
    problem: Problem, slots: Sequence[int], flows: list[tuple[int, float]], targets: list[int], limit: float
) -> Iterator[tuple[int, int, float]]:
    """Yield flows to one component, at most `limit` per executor: the rest goes to the next scope."""
    rest = [tps for _, tps in flows]
    nearer: list[list[int]] = [[] for _ in flows]
    for scope in ("worker", "node", "rack"):
        left = list(rest)
        for number, (source, _) in enumerate(flows):
            inside = _near(problem, slots, source, targets, scope)
            further = [t for t in inside if t not in nearer[number]]
            nearer[number] = inside
            if not further:
                continue
            others = [n for n, (s, _) in enumerate(flows) if _near(problem, slots, source, [s], scope)]
            too_much = max(sum(flows[n][1] for n in others) - len(inside) * limit, 0.0)
            left[number] = rest[number] * too_much / (sum(rest[n] for n in others) or 1.0)
            sent = rest[number] - left[number]
            for target in further if sent > ROUNDING * flows[number][1] else []:
                yield source, target, sent / len(further)
        rest = left
    for number, (source, _) in enumerate(flows):
        far = [t for t in targets if t not in nearer[number]] or targets
        for target in far if rest[number] > ROUNDING * flows[number][1] else []:
            yield source, target, rest[number] / len(far)


def _within(scope: str) -> tuple[str, ...]:
    order = ("executor", "worker", "node", "rack")
    return order[: order.index(scope) + 1]


def distance(problem: Problem, slots: Sequence[int], a: int, b: int) -> str:
    """Return the narrowest unit that contains both executors.

    Parameters
    ----------
    problem
        Problem with slots, nodes and racks.
    slots
        Slot of every executor, below 0 for none.
    a, b
        Executors, numbered over the problem.

    Returns
    -------
    "executor", "worker", "node", "rack" or "cluster"; "nowhere" if one of them has no slot.
    """
    if slots[a] < 0 or slots[b] < 0:
        return "nowhere"
    if a == b:
        return "executor"
    slot_a, slot_b = problem.slots[slots[a]], problem.slots[slots[b]]
    if slot_a == slot_b:
        return "worker"
    if slot_a.supervisor == slot_b.supervisor:
        return "node"
    racks = {node.id: node.rack for node in problem.supervisors}
    return "rack" if racks[slot_a.supervisor] == racks[slot_b.supervisor] else "cluster"


def cost_by_distance(problem: Problem, slots: Sequence[int], rates: dict[tuple[int, int], float]) -> dict[str, float]:
    """Return tuples/s by distance."""
    found = dict.fromkeys(CLASS_WEIGHTS, 0.0)
    for (source, target), tps in rates.items():
        found[distance(problem, slots, source, target)] += tps
    return found


def cost(problem: Problem, slots: Sequence[int]) -> float:
    """Return the cost of a placement with the traffic that it causes."""
    by_distance = cost_by_distance(problem, slots, traffic(problem, slots))
    return sum(CLASS_WEIGHTS[name] * tps for name, tps in by_distance.items())


def is_valid(problem: Problem, slots: Sequence[int]) -> bool:
    """Return whether a placement satisfies every constraint."""
    cpu: dict[str, float] = defaultdict(float)
    memory: dict[str, float] = defaultdict(float)
    generic: dict[tuple[str, str], float] = defaultdict(float)
    owner: dict[int, str] = {}
    workers: dict[str, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    for position, (topology, number) in enumerate(executors(problem)):
        slot = slots[position]
        if slot < 0 or owner.setdefault(slot, topology) != topology:
            return False
        load = problem.loads[[t.id for t in problem.topologies].index(topology)]
        cpu[problem.slots[slot].supervisor] += load.cpu_hz[number]
        memory[problem.slots[slot].supervisor] += load.memory_mb[number]
        workers[topology][slot] += 1
        for name, amount in other_demands(problem, topology, number).items():
            generic[problem.slots[slot].supervisor, name] += amount
    for node in problem.supervisors:
        if cpu[node.id] > node.cpu_hz * (1 + 1e-9):
            return False
        if memory[node.id] > node.resources.get("memory.mb", float("inf")) * (1 + 1e-9):
            return False
        for (there, name), amount in generic.items():
            if there == node.id and amount > node.resources.get(name, 0.0):
                return False
    for definition in problem.topologies:
        sizes = workers[definition.id]
        if len(sizes) != min(definition.num_workers, sum(sizes.values())):
            return False
        if max(sizes.values(), default=0) > definition.conf.get("stormwright.max.executors.per.worker", 10**9):
            return False
    return separates(problem, slots) and not uses_blacklisted_hosts(problem, slots)


def heaps(problem: Problem, slots: Sequence[int]) -> dict[tuple[str, int], tuple[float, float | None]]:
    """Return (topology id, slot) → size of the worker's heap and its use in MB; None if that is unknown.

    Heaps follow the requests of components, which are 128 MB by default, and no memory is shared.
    """
    size: dict[tuple[str, int], float] = defaultdict(float)
    live: dict[tuple[str, int], float | None] = {}
    for (topology, number), slot in zip(executors(problem), slots, strict=True):
        if slot < 0:
            continue
        definition = next(t for t in problem.topologies if t.id == topology)
        component = [run.component for run in definition.executor_runs for _ in range(run.count)][number]
        size[topology, slot] += definition.components[component].resources.get("onheap.memory.mb", 128.0)
        load = problem.load.topologies.get(topology) if problem.load else None
        if load is None or load.live_heap_mb is None:
            live[topology, slot] = None
        else:
            live[topology, slot] = (live.get((topology, slot)) or 32.0) + float(load.live_heap_mb[number])
    return {worker: (size[worker], live[worker]) for worker in size}


def uses_blacklisted_hosts(problem: Problem, slots: Sequence[int]) -> bool:
    """Return whether a blacklisted host has an executor that does not already run in the same slot."""
    hosts = {node.id: node.host for node in problem.supervisors}
    for (topology, number), index in zip(executors(problem), slots, strict=True):
        if index < 0 or hosts[problem.slots[index].supervisor] not in problem.blacklisted_hosts:
            continue
        now = problem.current.get(topology)
        position = now.slot_of_executor[number] if now else -1
        if now is None or position < 0 or now.slots[position] != problem.slots[index]:
            return True
    return False


def other_demands(problem: Problem, topology: str, number: int) -> dict[str, float]:
    """Return the demand of an executor besides CPU and memory."""
    definition = next(t for t in problem.topologies if t.id == topology)
    component = [run.component for run in definition.executor_runs for _ in range(run.count)][number]
    known = ("cpu.pcore.percent", "onheap.memory.mb", "offheap.memory.mb")
    return {name: n for name, n in definition.components[component].resources.items() if name not in known}


def separates(problem: Problem, slots: Sequence[int]) -> bool:
    """Return whether a placement satisfies Storm's constraints on components, executor by executor."""
    for definition in problem.topologies:
        components = [
            definition.components[run.component].id for run in definition.executor_runs for _ in range(run.count)
        ]
        placed = [
            slot for (topology, _), slot in zip(executors(problem), slots, strict=True) if topology == definition.id
        ]
        here = [(name, problem.slots[slot]) for name, slot in zip(components, placed, strict=True) if slot >= 0]
        pairs = {frozenset(pair) for pair in separated_pairs(definition)}
        for a, (one, slot) in enumerate(here):
            if any(frozenset((one, other)) in pairs for other, of_other in here[:a] if of_other == slot):
                return False
        for name, most in most_on_node(definition.conf).items():
            nodes = [slot.supervisor for component, slot in here if component == name]
            if any(nodes.count(node) > most for node in nodes):
                return False
    return True


def separated_pairs(definition: Topology) -> Iterator[Sequence[str]]:
    """Yield pairs of components that may not share a worker."""
    names = [component.id for component in definition.components]
    if definition.conf.get("topology.ras.one.executor.per.worker"):
        yield from product(names, names)
    if definition.conf.get("topology.ras.one.component.per.worker"):
        yield from combinations(names, 2)
    rules = definition.conf.get("topology.ras.constraints", {})
    if isinstance(rules, list):
        yield from rules
    else:
        for name, rule in rules.items():
            others = rule.get("incompatibleComponents", [])
            yield from ((name, other) for other in ([others] if isinstance(others, str) else others))


def most_on_node(conf: Mapping[str, Any]) -> dict[str, int]:
    """Return the maximum executors per node of the components that a topology's configuration limits."""
    most = dict.fromkeys(conf.get("topology.spread.components", []), 1)
    rules = conf.get("topology.ras.constraints", {})
    for name, rule in () if isinstance(rules, list) else rules.items():
        most[name] = rule.get("maxNodeCoLocationCnt", most.get(name, 10**9))
    return most
