"""What the source of a prediction tells the simulator: threads that wake are simulated, so their CPU is no cost.

Nothing that is predicted is looked at.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from benchmarks.cells.compare import assumed_at
from benchmarks.cells.fitted import Fitted, polled_cores
from benchmarks.cells.measured import Measured, Stretch
from stormwright.model import Problem
from stormwright.model.arrays import IntArray
from stormwright.predict.answer import Assumptions
from stormwright.predict.costs import Correction, Costs
from stormwright.predict.flow.profile import Profile
from stormwright.simulator.settings import SimulatorSettings
from stormwright.simulator.storm.counting import EngineTotals
from stormwright.simulator.storm.engine import Events

#: The source is simulated so often for so many seconds, of which the first part does not count.
_ROUNDS, _SECONDS, _FILLS = 3, 2.0, 0.25

#: Of the links (``tc``'s 256 kbit).
_BURST_BYTES = 32_000.0

#: Threads that woke on nodes of sources that hardly stopped waited for 0.3 ms on average (`waited_ns`, by wakings).
_CORE_WAIT_S = 6e-4

#: Of what work and messages were thought to take, the least and the most that they are said to take.
_MIN, _MAX = 0.1, 2.0


def simulated(problem: Problem, slots: IntArray, assumed: Assumptions, rate_tps: float, seconds: float) -> Events:
    """A cluster that has run for a while, with as many trees as go or at a rate.

    Parameters
    ----------
    problem, slots
        What runs, and where.
    assumed
        Costs and corrections.
    rate_tps
        Trees/s, 0 for as many as go.
    seconds
        Of virtual time.
    """
    profile = Profile.of(problem)
    settings = SimulatorSettings(
        assumed.costs,
        assumed.corrections,
        saturated=not rate_tps,
        arrivals_vary=0.0,
        link_burst_bytes=_BURST_BYTES,
        core_wait_s=_CORE_WAIT_S,
    )
    of = Events(problem, slots, settings, profile)
    if rate_tps:
        of.rate(0, rate_tps / float(profile.rate_tps[0]))
    of.until(seconds)
    return of


def as_simulated(source: Measured, problem: Problem, known: Fitted, at: Stretch) -> tuple[Fitted, Correction]:
    """Costs for the simulator, and factors by which it takes of the source's CPU what was measured.

    Parameters
    ----------
    source, problem, known
        As `cells.compare.pairs` gives them.
    at
        The stretch of the source with as many trees as go.
    """
    costs = replace(
        known.costs, worker_cores=known.costs.worker_cores - polled_cores(at, known.spin), asleep_us=Costs().asleep_us
    )
    known, slots = replace(known, costs=costs), source.slots_in(problem)
    found = Correction()
    measured = np.array(_measured_s(at))
    for _ in range(_ROUNDS):
        assumed = with_factors(assumed_at(source, at.limit, at, known, True), source.topology, found)
        of = simulated(problem, slots, assumed, 0.0, _FILLS * _SECONDS)
        before, carried_s = of.counts, _carried_s(of)
        of.until(_SECONDS)
        counts = of.counts.since(before)
        trees = max(counts.topologies["completed"][0], 1)
        took_s = np.array([counts.threads["cpu_s"].sum(), _carried_s(of) - carried_s]) / trees
        own_s = np.array(_own_s(of, counts, assumed.costs, found)) / trees
        more = np.divide(measured - took_s, own_s, out=np.zeros(2), where=own_s > 0)
        factors = np.clip(np.array([found.work, found.messages]) * (1 + more), _MIN, _MAX)
        found = Correction(*factors.tolist())
    return known, found


def with_factors(assumed: Assumptions, topology: str, factors: Correction) -> Assumptions:
    """The same, with the work and the messages of a topology times more factors."""
    own = assumed.corrections[topology]
    both = Correction(own.work * factors.work, own.messages * factors.messages)
    return replace(assumed, corrections={topology: both})


def _measured_s(at: Stretch) -> tuple[float, float]:
    """CPU of executors and of messaging threads for a tree, in seconds."""
    workers = len({(record["worker"]["supervisor"], record["worker"]["port"]) for record in at.records})
    trees = at.acked_tps * sum(record["length_ns"] for record in at.records) / 1e9 / workers
    names = [(r, e) for r in at.records for e in r["executors"]]
    executors = sum(e["cpu_ns"] for _, e in names if e["component"] == "__acker" or not e["component"].startswith("__"))
    messaging = sum(record["threads"]["messaging_ns"] for record in at.records)
    return executors / 1e9 / trees, messaging / 1e9 / trees


def _carried_s(of: Events) -> float:
    """CPU of the threads that carry messages."""
    return float(of.cluster.threads["cpu_s"][of.problem.num_executors :].sum())


def _own_s(of: Events, counts: EngineTotals, costs: Costs, factors: Correction) -> tuple[float, float]:
    """Of that CPU, what is by the tuple: of executors' work, and of messages."""
    threads, pairs, routes = of.cluster.threads, of.cluster.pairs, of.cluster.routes
    executors = of.problem.num_executors
    work_s = float(counts.threads["received"] @ np.array(threads["work_s"][:executors]))
    source = np.repeat(np.array(routes["source"]), routes["count"])
    size = np.repeat(np.array(routes["bytes"]), routes["count"])
    far = threads["worker"][source] != threads["worker"][np.array(pairs["target"])]
    each_us = costs.send_us + costs.receive_us + 1e-3 * size * (costs.send_us_per_kb + costs.receive_us_per_kb)
    return work_s, float(1e-6 * (each_us * counts.pairs)[far].sum()) * factors.messages
