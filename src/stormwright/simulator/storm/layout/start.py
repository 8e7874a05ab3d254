"""A virtual Storm cluster for a problem, before anything runs in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stormwright.jit.compiled import Records
from stormwright.model import Problem
from stormwright.model.arrays import IntArray
from stormwright.predict.costs import Costs
from stormwright.predict.flow.profile import Profile
from stormwright.predict.workers import nodes_of
from stormwright.simulator.kernel.arrays import NEVER, records
from stormwright.simulator.kernel.clock import Clock
from stormwright.simulator.kernel.quotas import QUOTA, with_quotas
from stormwright.simulator.kernel.shares import JOB, SHARE, Shares
from stormwright.simulator.settings import Settings
from stormwright.simulator.storm.layout.edges import Edges
from stormwright.simulator.storm.records import (
    ACKER,
    BOLT,
    BUCKETS,
    LINK,
    NONE,
    RECEIVER,
    RUN,
    SEEN,
    SENDER,
    SPOUT,
    SPOUT_STATE,
    THREAD,
    TOPOLOGY,
    TREE,
    TUPLE,
    WORKER,
    Cluster,
)

#: Storm's defaults (defaults.yaml of 2.8.3).
_RECEIVES, _TRANSFERS, _TIMEOUT_S, _HIGHER, _LOWER = 32_768, 1_000, 30.0, 0.8, 0.2

#: How often a bolt's thread looks for tuples before it sleeps, and how long that takes each time.
_PARKS, _PARK_S = 1_000, 55e-6

#: Of a thread at first.
_NOBODY = [
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

#: Tuples and trees for which there is room at first; there is made more as needed.
_ROOM = 4_096

#: More than can be pending.
_NO_LIMIT = 1 << 60


def start(problem: Problem, settings: Settings, profile: Profile) -> Cluster:
    """The cluster with nothing placed.

    Parameters
    ----------
    problem
        With nodes, and a load.
    settings
        What else is taken for given.
    profile
        Of the load.
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
    of_times = np.cumsum([len(threads), len(shares.cores), len(links), len(topologies), len(quotas)]).tolist()
    run["cores"], run["nodes"] = len(shares.cores), nodes
    _, run["first_link"], run["first_topology"], run["first_quota"], last = of_times
    times = np.full(last + 1, NEVER)
    times[of_times[2] : of_times[3]] = topologies["timeout_s"]
    times[last] = 1.0
    tuples, trees = records(0, TUPLE), records(0, TREE)
    seen, pairs = records(len(threads), SEEN), edges.pairs
    cluster = Cluster(
        threads=threads,
        spouts=_spouts(profile, spouts, settings),
        routes=edges.routes,
        pairs=pairs,
        tuples=tuples,
        trees=trees,
        workers=records(workers, WORKER),
        topologies=topologies,
        links=links,
        seen=seen,
        run=run,
        choices=edges.choices,
        racks=problem.node_rack.astype(np.int64),
        latency=np.zeros((len(topologies), BUCKETS), np.int64),
        shares=shares,
        quotas=quotas,
        clock=Clock.of(times),
        random=np.random.SeedSequence(settings.seed % 2**64).generate_state(1, np.uint64).astype(np.uint64),
    )
    return with_room(cluster, _ROOM, _ROOM)


def with_room(of: Cluster, tuples: int, trees: int) -> Cluster:
    """The same cluster with room for so many more tuples and trees."""
    run = of.run[0]
    made, grown = _more(of.tuples, tuples, int(run["free_tuple"])), _more(of.trees, trees, int(run["free_tree"]))
    for name, old, new in (("tuple", of.tuples, made), ("tree", of.trees, grown)):
        if len(new) > len(old):
            run[f"free_{name}"] = len(old)
            run[f"{name}s_left"] += len(new) - len(old)
    return of._replace(tuples=made, trees=grown)


def _more(old: Records, more: int, free: int) -> Records:
    """With more records at the head of the list of those that are free."""
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
    for name in _NOBODY:
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
        # Only there it matters what threads take for nothing: it is a part of the quota that they all share.
        made["sleeps_s"][executors : executors + workers] = 2e-6 * costs.asleep_us
        made["sleeps_s"][executors + workers :] = 0.0
        made["wakes_s"] = costs.polling_share * 2e-6 * costs.asleep_us
        made["polls"] = (made["wakes_s"] > 0) & (made["sleeps_s"] > 0)
    made["kind"][executors + workers :] = RECEIVER
    transfers = [number_of(conf, "topology.transfer.buffer.size", _TRANSFERS) for conf in confs]
    # Which topology a worker is of changes; the least buffer of all is that of each.
    made["limit"][executors : executors + workers] = min(transfers, default=_TRANSFERS)
    made["limit"][executors + workers :] = _NO_LIMIT
    return made


def _set_waits(of: Records, confs: Sequence[Mapping[str, Any]], topology: IntArray, costs: Costs) -> None:
    """How executors wait for tuples: Storm's progressive strategy, which looks often at first, then sleeps."""
    for kind, (parks, spouts) in {"bolt": (_PARKS, False), "spout": (0.0, True)}.items():
        key = f"topology.{kind}.wait.progressive.level"
        parks_s = [_PARK_S * _count(conf, f"{key}2.count", parks) for conf in confs]
        sleeps_s = [2e-6 * costs.asleep_us * number_of(conf, f"{key}3.sleep.millis", 1.0) for conf in confs]
        own = (of["kind"] == SPOUT) == spouts
        of["park_s"][own] = _PARK_S
        of["parks_s"][own], of["sleeps_s"][own] = np.array(parks_s)[topology[own]], np.array(sleeps_s)[topology[own]]


def _count(conf: Mapping[str, Any], key: str, default: float) -> float:
    return 0.0 if conf.get(key) == 0 else number_of(conf, key, default)


def _spouts(profile: Profile, spouts: NDArray[np.int64], settings: Settings) -> Records:
    layout, problem = profile.layout, profile.problem
    component = layout.executor_component[spouts]
    topology = problem.executor_topology[spouts]
    made = records(len(spouts), SPOUT_STATE)
    rate_tps = profile.rate_tps[topology] * profile.begins[spouts]
    has_ackers = np.bincount(layout.topology, layout.is_acker * layout.size, len(problem.topologies)) > 0
    by_rate = ~(settings.saturated & layout.is_spout[component])
    made["apart_s"] = np.where(
        by_rate, np.divide(1.0, rate_tps, out=np.full(len(spouts), NEVER), where=rate_tps > 0), 0
    )
    made["varies"], made["reliable"] = settings.arrivals_vary, settings.reliable
    chance = np.random.default_rng([settings.seed % 2**64, 1])
    # Spouts that are offered trees at constant times do not all begin them at once.
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
    """Cores of nodes: of each together, or one by one with its quota, as many as the machine has."""
    cores = nodes_of(problem).cores
    if costs.quota_period_ms > 0:
        each = max(round(costs.machine_cores), ceil(cores.max(initial=1.0)))
        begin = np.random.default_rng([seed % 2**64, 2]).random(len(cores))  # periods of nodes do not begin together
        made, quotas = with_quotas(cores, each, 1e-3 * costs.quota_period_ms, 1e-3 * costs.quota_piece_ms, begin)
        return Shares(made, records(0, JOB)), quotas
    made = records(len(cores), SHARE)
    made["cores"], made["speed"], made["quota"] = cores, 1.0, NONE
    return Shares(made, records(0, JOB)), records(0, QUOTA)


def _links(problem: Problem, settings: Settings) -> Records:
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


def number_of(conf: Mapping[str, Any], key: str, default: float) -> float:
    """A positive number of a configuration; what is none counts as not said."""
    value = conf.get(key)
    sound = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < 1e15
    return float(value) if sound and value is not None else default
