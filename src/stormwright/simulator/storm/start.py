"""Initial state of a virtual Storm cluster for a problem."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from math import ceil, inf
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from stormwright.errors import Fault, InputError
from stormwright.jit.compiled import Records
from stormwright.model import Problem
from stormwright.model.arrays import IntArray
from stormwright.model.batches import MAX_SPOUT_PENDING
from stormwright.model.topology_config import UNAWARE_SHUFFLE, number_of
from stormwright.predict.costs import Costs
from stormwright.predict.flow.profile import Profile
from stormwright.predict.polling import PARK_S, Waits
from stormwright.predict.workers import nodes_of
from stormwright.simulator.kernel.arrays import NEVER, records
from stormwright.simulator.kernel.clock import ActorTimes
from stormwright.simulator.kernel.quotas import QUOTA, with_quotas
from stormwright.simulator.kernel.shares import JOB, SHARE, Shares
from stormwright.simulator.settings import SimulatorSettings
from stormwright.simulator.storm.records import (
    ACKER,
    ALL,
    BOLT,
    BUCKETS,
    EVERYWHERE,
    FIELDS,
    LINK,
    MAX_WEIGHT,
    NONE,
    PAIR,
    QUEUE_LOADS,
    RECEIVER,
    ROUND,
    ROUTE,
    RUN,
    SENDER,
    SHUFFLE,
    SPOUT,
    SPOUT_STATE,
    THREAD,
    TO_ACKER,
    TO_SPOUT,
    TOPOLOGY,
    TREE,
    TUPLE,
    WORKER,
    ClusterState,
)

#: Probabilities above it count as 1, and those below its complement as 0, due to rounding.
_ROUNDING = 1e-9

#: Additional tuples of an executor besides those it sends.
_BESIDES = 8

#: Most tuples that an executor may send for one handled tuple: they are followed one by one, within one event.
_MAX_SENT = 1_000_000


class _Route(NamedTuple):
    """A route of one executor; `parts` are the fractions of its tuples by target."""

    kind: int
    targets: NDArray[np.int64]
    tuples: float
    size: float
    local: bool = False
    parts: NDArray[np.float64] | None = None


class Edges(NamedTuple):
    """Routes of all executors.

    Parameters
    ----------
    routes, pairs, choices
        Routes and pairs of executors, and choices of shuffles, as in `ClusterState`.
    first
        First route of every executor, shape (E + 1,).
    most_sent
        Maximum tuples that an executor sends for one handled tuple.
    """

    routes: Records
    pairs: Records
    choices: NDArray[np.int32]
    first: NDArray[np.int64]
    most_sent: int

    @classmethod
    def of(cls, problem: Problem, profile: Profile, spouts: NDArray[np.int64]) -> Self:
        """Return the routes of a profile.

        Parameters
        ----------
        problem, profile
            Problem and its load.
        spouts
            Executors that begin trees, or send periodically.

        Raises
        ------
        InputError
            An executor sends too many tuples for one that it handles.
        """
        found = list(_found(problem, profile, spouts))
        sent = [sum(_most(route) for route in of_source) for of_source in found]
        _require_countable(problem, sent)
        flat = [(source, route) for source, of_source in enumerate(found) for route in of_source]
        routes = records(len(flat), ROUTE)
        pairs = records(sum(len(route.targets) for _, route in flat), PAIR)
        aware = [{**problem.conf, **topology.conf}.get(UNAWARE_SHUFFLE) is not True for topology in problem.topologies]
        at = shuffles = 0
        for number, (source, route) in enumerate(flat):
            whole = int(route.tuples + _ROUNDING)
            part, count = max(route.tuples - whole, 0.0), len(route.targets)
            routes[number] = (
                part if part > _ROUNDING else 0.0,
                route.size,
                *(route.kind, source, whole, at, count, shuffles * ROUND, 0, EVERYWHERE),
                *(route.local, aware[problem.executor_topology[source]]),
            )
            shuffles += route.kind == SHUFFLE
            own = pairs[at : at + count]
            own["target"], own["weight"] = route.targets, MAX_WEIGHT
            own["below"] = 1.0 if route.parts is None else np.cumsum(route.parts)
            at += count
        first = np.cumsum([0, *(len(of_source) for of_source in found)])
        choices = np.zeros(shuffles * ROUND, np.int32)
        return cls(routes, pairs, choices, first, max(sent, default=0) + _BESIDES)


def _require_countable(problem: Problem, sent: Sequence[int]) -> None:
    """Raise if an executor sends too many tuples for one handled tuple; a fault for each component."""
    faults: dict[str, Fault] = {}
    for executor in np.flatnonzero(np.array(sent, np.float64) > _MAX_SENT).tolist():
        number = int(problem.executor_topology[executor])
        topology = problem.topologies[number]
        own = executor - int(problem.executor_offset[number])
        component = topology.components[topology.executor_component[own]].id
        message = f"sends {sent[executor]:,.3g} tuples for each that it handles; at most {_MAX_SENT:,} can be simulated"
        faults.setdefault(f"{topology.id}/{component}", Fault(message, f"{topology.id}/{component}"))
    if faults:
        raise InputError("simulate", list(faults.values()))


def _most(route: _Route) -> int:
    return (int(route.tuples) + 2) * (len(route.targets) if route.kind == ALL else 1)


def _found(problem: Problem, profile: Profile, spouts: NDArray[np.int64]) -> Iterator[list[_Route]]:
    """Yield the routes of one executor after the other."""
    layout, flows = profile.layout, profile.flows
    to_all, acking = _to_all(problem, profile), _acking(profile)
    of_pairs, ack_size = _pairs_by_source(profile)
    of_flows: dict[int, list[int]] = defaultdict(list)
    for number, source in enumerate(flows.source.tolist()):
        of_flows[source].append(number)
    for source in range(problem.num_executors):
        component, topology = layout.executor_component[source], layout.executor_topology[source]
        own = np.flatnonzero(layout.is_acker & (layout.topology == topology))
        ackers = np.concatenate([np.empty(0, np.int64), *(_members(profile, int(each)) for each in own)])
        if layout.is_acker[component]:
            answers = spouts[layout.executor_topology[spouts] == topology]
            yield [_Route(TO_SPOUT, answers, 1.0, ack_size)] if len(answers) else []
            continue
        found = [
            _Route(
                SHUFFLE, _members(profile, int(flows.target[n])), flows.tuples[n], flows.size[n], bool(flows.local[n])
            )
            for n in of_flows[source]
        ]
        for target, (targets, tuples, size) in sorted(of_pairs[source].items()):
            if (component, target) in to_all:
                found.append(_Route(ALL, targets, float(tuples.max()), size))
            else:
                found.append(_Route(FIELDS, targets, float(tuples.sum()), size, parts=tuples / tuples.sum()))
        if len(ackers) and component in acking:
            found.append(_Route(TO_ACKER, ackers, 1.0, ack_size))
        yield [route for route in found if route.tuples > _ROUNDING and len(route.targets)]


def _members(profile: Profile, component: int) -> NDArray[np.int64]:
    layout = profile.layout
    return layout.members[layout.first[component] : layout.first[component + 1]].astype(np.int64)


_Sent = tuple[NDArray[np.int64], NDArray[np.float64], float]


def _pairs_by_source(profile: Profile) -> tuple[dict[int, dict[int, _Sent]], float]:
    """Return the targets by source and component, and the size of messages to ackers."""
    pairs, layout = profile.pairs, profile.layout
    target = layout.executor_component[pairs.target]
    system = layout.is_acker[target] | layout.is_acker[layout.executor_component[pairs.source]]
    order = np.lexsort((pairs.target, target, pairs.source))
    order = order[~system[order] & (pairs.tuples[order] > 0)]
    keys = np.stack([pairs.source[order], target[order]])
    starts = np.flatnonzero(np.any(np.diff(keys, axis=1, prepend=-1) != 0, axis=0))
    found: dict[int, dict[int, _Sent]] = defaultdict(dict)
    for group in np.split(order, starts[1:]) if len(order) else ():
        tuples = pairs.tuples[group]
        size = float(np.average(pairs.size[group], weights=tuples))
        found[int(pairs.source[group[0]])][int(target[group[0]])] = (pairs.target[group].astype(np.int64), tuples, size)
    acks = layout.is_acker[target] & (pairs.tuples > 0)
    return found, float(pairs.size[acks].mean()) if acks.any() else 0.0


def _acking(profile: Profile) -> set[int]:
    """Return the components that send messages to ackers."""
    layout, pairs = profile.layout, profile.pairs
    to_ackers = layout.is_acker[layout.executor_component[pairs.target]] & (pairs.tuples > 0)
    return set(layout.executor_component[pairs.source[to_ackers]].tolist())


def _to_all(problem: Problem, profile: Profile) -> set[tuple[int, int]]:
    """Return the pairs of components with an all grouping."""
    found = set()
    for topology, offset in zip(problem.topologies, profile.layout.component_offset[:-1].tolist(), strict=True):
        for number, component in enumerate(topology.components):
            kinds = defaultdict(set)
            for grouping in component.inputs:
                if grouping.source in topology.component_index:
                    kinds[topology.component_index[grouping.source]].add(grouping.kind)
            found |= {(offset + source, offset + number) for source, of_source in kinds.items() if of_source == {"all"}}
    return found


#: Storm's defaults (defaults.yaml of 2.8.3).
_RECEIVES, _TRANSFERS, _TIMEOUT_S, _HIGHER, _LOWER = 32_768, 1_000, 30.0, 0.8, 0.2

#: Minimum number of sets of tuples that may be pending or in a queue, for executors to work in parallel.
_MIN_SETS = 8

#: Initial state of a thread.
_NO_ACTOR = [
    "worker",
    "node",
    "core",
    "spout",
    "first",
    "last",
    "waiting",
    "last_waiting",
    "next",
    "tuple",
    "pair",
    "left",
]

#: Initial capacity of tuples and trees; extended as needed.
_ROOM = 4_096

#: More than can ever be pending.
_NO_LIMIT = 1 << 60


def start(problem: Problem, settings: SimulatorSettings, profile: Profile) -> ClusterState:
    """Return the cluster without any placement.

    Parameters
    ----------
    problem
        Problem with nodes and a load.
    settings
        Costs, offered rates, link buffers, delays and seed of the simulation.
    profile
        Profile of the load.
    """
    costs, layout = settings.costs, profile.layout
    spouts = np.flatnonzero((profile.begins > 0) | layout.is_spout[layout.executor_component])
    edges = Edges.of(problem, profile, spouts)
    executors, nodes = problem.num_executors, len(problem.supervisors)
    workers = min(executors, len(problem.slots) * max(len(problem.topologies), 1))
    topologies = _topologies(problem, spouts)
    threads = _threads(problem, profile, spouts, edges, workers, costs)
    links = _links(problem, settings)
    shares, quotas = _cores(problem, costs, settings.seed)
    run = _run(costs, executors, workers, edges)
    run["wait_s"] = settings.core_wait_s
    of_times = np.cumsum([len(threads), len(shares.cores), len(links), len(spouts), len(quotas)]).tolist()
    run["cores"], run["nodes"] = len(shares.cores), nodes
    _, run["first_link"], run["first_spouts"], run["first_quota"], last = of_times
    times = np.full(last + 1, NEVER)
    times[last] = 1.0
    tuples, trees = records(0, TUPLE), records(0, TREE)
    queue_loads, pairs = records(len(threads), QUEUE_LOADS), edges.pairs
    cluster = ClusterState(
        threads=threads,
        spouts=_spouts(profile, spouts, settings),
        routes=edges.routes,
        pairs=pairs,
        tuples=tuples,
        trees=trees,
        workers=records(workers, WORKER),
        topologies=topologies,
        links=links,
        queue_loads=queue_loads,
        run=run,
        choices=edges.choices,
        racks=problem.node_rack.astype(np.int64),
        latency=np.zeros((len(topologies), BUCKETS), np.int64),
        shares=shares,
        quotas=quotas,
        clock=ActorTimes.of(times),
        random=np.random.SeedSequence(settings.seed % 2**64).generate_state(1, np.uint64).astype(np.uint64),
    )
    return with_room(cluster, _ROOM, _ROOM)


def most_at_once(problem: Problem, profile: Profile) -> int:
    """Return the largest set of tuples for which limits of pending trees and of queues leave room for several sets.

    Parameters
    ----------
    problem
        Problem with nodes and a load.
    profile
        Profile of the load.
    """
    confs = [{**problem.conf, **topology.conf} for topology in problem.topologies]
    spouts = profile.layout.is_spout & np.isfinite(profile.layout.pending)[profile.layout.topology]
    limited = np.bincount(profile.layout.topology, spouts, len(confs)) > 0
    limits = [
        limit
        for conf, is_limited in zip(confs, limited.tolist(), strict=True)
        for limit in (
            number_of(conf, MAX_SPOUT_PENDING, inf) if is_limited else inf,
            number_of(conf, "topology.executor.receive.buffer.size", _RECEIVES),
            number_of(conf, "topology.transfer.buffer.size", _TRANSFERS),
        )
    ]
    return max(int(min(limits, default=1)) // _MIN_SETS, 1)


def with_room(cluster: ClusterState, tuples: int, trees: int) -> ClusterState:
    """Return the cluster with space for more tuples and trees."""
    run = cluster.run[0]
    made, grown = (
        _more(cluster.tuples, tuples, int(run["free_tuple"])),
        _more(cluster.trees, trees, int(run["free_tree"])),
    )
    for name, old, new in (("tuple", cluster.tuples, made), ("tree", cluster.trees, grown)):
        if len(new) > len(old):
            run[f"free_{name}"] = len(old)
            run[f"{name}s_left"] += len(new) - len(old)
    return cluster._replace(tuples=made, trees=grown)


def _more(old: Records, more: int, free: int) -> Records:
    """Return the records extended by free ones at the head of the free list."""
    made = records(len(old) + more, old.dtype)
    made[: len(old)] = old
    if more:
        made["next"][len(old) :] = np.arange(len(old) + 1, len(made) + 1)
        made["next"][-1] = free
    return made


def _topologies(problem: Problem, spouts: NDArray[np.int64]) -> Records:
    made = records(len(problem.topologies), TOPOLOGY)
    made["first_spout"] = np.searchsorted(problem.executor_topology[spouts], np.arange(len(made)))
    made["active"] = True
    for number, topology in enumerate(problem.topologies):
        conf = {**problem.conf, **topology.conf}
        timeout_s = number_of(conf, "topology.message.timeout.secs", _TIMEOUT_S)
        made[number]["timeout_s"] = NEVER if conf.get("topology.enable.message.timeouts") is False else timeout_s
        made[number]["higher"] = number_of(conf, "topology.localityaware.higher.bound", _HIGHER)
        made[number]["lower"] = number_of(conf, "topology.localityaware.lower.bound", _LOWER)
    return made


def _threads(
    problem: Problem, profile: Profile, spouts: NDArray[np.int64], edges: Edges, workers: int, costs: Costs
) -> Records:
    executors, layout = problem.num_executors, profile.layout
    made = records(executors + 2 * workers, THREAD)
    for name in _NO_ACTOR:
        made[name] = NONE
    of_executors = made[:executors]
    of_executors["kind"] = np.where(layout.is_acker[layout.executor_component], ACKER, BOLT)
    of_executors["kind"][spouts] = SPOUT
    of_executors["spout"][spouts] = np.arange(len(spouts))
    of_executors["topology"] = problem.executor_topology
    of_executors["first_route"], of_executors["last_route"] = edges.first[:-1], edges.first[1:]
    confs = [{**problem.conf, **topology.conf} for topology in problem.topologies]
    receives = [number_of(conf, "topology.executor.receive.buffer.size", _RECEIVES) for conf in confs]
    of_executors["limit"] = np.array([*receives, 0.0])[problem.executor_topology]
    _set_waits(of_executors, confs, problem.executor_topology, costs)
    made["kind"][executors : executors + workers] = SENDER
    if costs.quota_period_ms > 0:
        # Idle polling only matters there, as it uses the shared quota.
        made["sleeps_s"][executors : executors + workers] = 2e-6 * costs.asleep_us
        made["sleeps_s"][executors + workers :] = 0.0
        made["wakes_s"] = 1e-6 * costs.poll_us or costs.polling_share * 2e-6 * costs.asleep_us
        made["polls"] = (made["wakes_s"] > 0) & (made["sleeps_s"] > 0)
    made["kind"][executors + workers :] = RECEIVER
    transfers = [number_of(conf, "topology.transfer.buffer.size", _TRANSFERS) for conf in confs]
    # The topology of a worker changes; each has the smallest buffer of all.
    made["limit"][executors : executors + workers] = min(transfers, default=_TRANSFERS)
    made["limit"][executors + workers :] = _NO_LIMIT
    return made


def _set_waits(threads: Records, confs: Sequence[Mapping[str, Any]], topology: IntArray, costs: Costs) -> None:
    """Set how executors wait for tuples: Storm's progressive strategy, which spins at first, then sleeps."""
    for spouts in (False, True):
        parks, sleep_s = np.array([Waits.of(conf, spout=spouts) for conf in confs], np.float64).reshape(-1, 2).T
        own = (threads["kind"] == SPOUT) == spouts
        threads["park_s"][own] = PARK_S
        threads["parks_s"][own] = (PARK_S * parks)[topology[own]]
        threads["sleeps_s"][own] = (2e-3 * costs.asleep_us * sleep_s)[topology[own]]


def _spouts(profile: Profile, spouts: NDArray[np.int64], settings: SimulatorSettings) -> Records:
    layout, problem = profile.layout, profile.problem
    component = layout.executor_component[spouts]
    topology = problem.executor_topology[spouts]
    made = records(len(spouts), SPOUT_STATE)
    offered_tps = [
        settings.offered_tps.get(each.id, rate)
        for each, rate in zip(problem.topologies, profile.rate_tps.tolist(), strict=True)
    ]
    offered = np.array([*offered_tps, 0.0])[topology]
    saturated = settings.saturated | np.isinf(offered)
    rate_tps = np.where(np.isinf(offered), profile.rate_tps[topology], offered) * profile.begins[spouts]
    has_ackers = np.bincount(layout.topology, layout.is_acker * layout.size, len(problem.topologies)) > 0
    by_rate = ~(saturated & layout.is_spout[component])
    made["apart_s"] = np.where(
        by_rate, np.divide(1.0, rate_tps, out=np.full(len(spouts), NEVER), where=rate_tps > 0), 0
    )
    made["varies"], made["reliable"] = settings.arrivals_vary, settings.reliable
    made["backlog_s"] = settings.backlog_s
    chance = np.random.default_rng([settings.seed % 2**64, 1])
    # Spouts with constant intervals do not all begin at once.
    made["comes"] = np.where(np.isfinite(made["apart_s"]), made["apart_s"] * chance.random(len(spouts)), NEVER)
    made["comes"][~by_rate] = NEVER
    made["thread"], made["first"], made["last"] = spouts, NONE, NONE
    made["acked"] = has_ackers[topology] & layout.is_spout[component]
    tasks = np.concatenate([[], *(t.executor_end_task - t.executor_start_task + 1 for t in problem.topologies)])
    of_topology = np.bincount(
        layout.executor_topology[spouts], tasks[spouts] * layout.is_spout[component], len(has_ackers)
    )
    each = np.divide(layout.pending, of_topology, out=np.full(len(has_ackers), np.inf), where=of_topology > 0)
    most = np.where(made["acked"], each[topology] * tasks[spouts], np.inf)
    made["most"] = np.maximum(np.minimum(most, _NO_LIMIT), 1)
    return made


def _cores(problem: Problem, costs: Costs, seed: int) -> tuple[Shares, Records]:
    """Return the cores of nodes: of each together, or one by one with its quota, as many as the machine has."""
    cores = nodes_of(problem).cores
    if costs.quota_period_ms > 0:
        each = max(round(costs.machine_cores), ceil(cores.max(initial=1.0)))
        begin = np.random.default_rng([seed % 2**64, 2]).random(len(cores))  # periods of nodes are not synchronised
        made, quotas = with_quotas(cores, each, 1e-3 * costs.quota_period_ms, 1e-3 * costs.quota_piece_ms, begin)
        return Shares(made, records(0, JOB)), quotas
    made = records(len(cores), SHARE)
    made["cores"], made["speed"], made["quota"] = cores, 1.0, NONE
    return Shares(made, records(0, JOB)), records(0, QUOTA)


def _links(problem: Problem, settings: SimulatorSettings) -> Records:
    speeds = nodes_of(problem).link_bytes_per_s
    made = records(2 * len(speeds), LINK)
    made["bytes_per_s"] = np.tile(np.where(np.isfinite(speeds), speeds, 0.0), 2)
    made["limit"], made["burst"] = settings.link_buffer_bytes, settings.link_burst_bytes
    made["tokens"] = made["burst"]
    for name in ("first", "last", "waiting", "last_waiting"):
        made[name] = NONE
    return made


def _run(costs: Costs, executors: int, workers: int, edges: Edges) -> Records:
    made = records(1, RUN)
    run = made[0]
    run["executors"], run["workers"], run["threads"] = executors, workers, executors + 2 * workers
    run["local_hop_s"], run["remote_hop_s"] = 1e-6 * costs.local_hop_us, 1e-6 * costs.remote_hop_us
    run["overhead_bytes"] = costs.overhead_bytes
    for name in ("serialise", "send", "receive"):
        run[f"{name}_s"] = 1e-6 * getattr(costs, f"{name}_us")
        run[f"{name}_byte_s"] = 1e-9 * getattr(costs, f"{name}_us_per_kb")
    run["free_tuple"] = run["free_tree"] = NONE
    run["most_sent"] = edges.most_sent
    return made
