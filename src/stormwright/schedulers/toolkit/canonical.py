"""Canonical forms of a problem, in which names and the order of traffic pairs have no influence on an answer."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from stormwright.model import Problem
from stormwright.model.answer import name_slots
from stormwright.model.problem import CHECKED


def with_sorted_pairs(problem: Problem) -> Problem:
    """Return the problem with traffic pairs in one order, as sums of rates in another one differ by their rounding."""
    if problem.load is None:
        return problem
    loads = dict(problem.load.topologies)
    for topology, load in zip(problem.topologies, problem.demand.measured, strict=True):
        if load is None:
            continue
        order = np.lexsort((load.pair_tps, load.pair_target, load.pair_source))
        sizes = None if load.pair_bytes_per_s is None else load.pair_bytes_per_s[order]
        loads[topology.id] = replace(
            load,
            pair_source=load.pair_source[order],
            pair_target=load.pair_target[order],
            pair_tps=load.pair_tps[order],
            pair_bytes_per_s=sizes,
        )
    return problem.with_load(replace(problem.load, topologies=loads))


def named_by_position(problem: Problem) -> Problem:
    """Return the problem without load and with ids and hosts that are positions, in order of the problem.

    Executors and slots have the same numbers as in `problem`. It is for rules that go by ids but ignore the load.
    """
    hosts: dict[str, str] = {}
    for node in problem.supervisors:
        hosts.setdefault(node.host, f"host-{len(hosts):07}")
    ids = {node.id: f"node-{index:07}" for index, node in enumerate(problem.supervisors)}
    named = Problem(
        supervisors=tuple(replace(node, id=ids[node.id], host=hosts[node.host]) for node in problem.supervisors),
        topologies=tuple(replace(each, id=f"t-{index:07}") for index, each in enumerate(problem.topologies)),
        conf=problem.conf,
        blacklisted_hosts=frozenset(hosts[host] for host in problem.blacklisted_hosts if host in hosts),
        greylisted_supervisors=tuple(ids[id_] for id_ in problem.greylisted_supervisors if id_ in ids),
        core_hz=problem.core_hz,
        parts=CHECKED,
    )
    slots = problem.current_slot
    return named.with_current(
        {each.id: name_slots(named, slots[named.executors_of(i)]) for i, each in enumerate(named.topologies)}
    )
