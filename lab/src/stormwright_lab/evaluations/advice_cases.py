"""Cases for advisers: generated topologies with true costs, rates over time, and requirements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from stormwright.advise.adviser import Observation, TargetSize
from stormwright.advise.observed import observation_of
from stormwright.advise.search.kinds import NodeKind
from stormwright.defaults import BASELINE
from stormwright.formats.sketch import sketch
from stormwright.model import Assignment, LoadProfile, Problem, Supervisor, TopologyLoad
from stormwright.model.arrays import FloatArray, IntArray
from stormwright.model.requests import CPU
from stormwright.predict.changes import rebalanced, with_rates
from stormwright.predict.costs import Costs
from stormwright.predict.evaluate import steady_states
from stormwright.predict.flow.profile import Profile
from stormwright.predict.steady import PlacedLoad, SteadyState, steady_state
from stormwright.schedulers import make_scheduler

#: Fraction of the highest rate that a saturated topology begins: at 1 waiting times are infinite.
_JUST_BELOW = 1 - 1e-3

#: Shapes: chains as `sketch` takes them with the tasks of each component, and its work for a tuple in ms of a core.
_SHAPES: Mapping[str, tuple[Sequence[str], Mapping[str, tuple[int, float]]]] = {
    "linear": (
        ("spout -> parse -> enrich -> store",),
        {"spout": (2, 0.15), "parse": (5, 0.9), "enrich": (5, 0.6), "store": (3, 0.25)},
    ),
    "diamond": (
        ("spout -> left -> join fields", "spout -> right -> join fields"),
        {"spout": (2, 0.15), "left": (5, 0.8), "right": (4, 0.45), "join": (4, 0.3)},
    ),
    "star": (
        ("in-a -> hub -> out-a", "in-b -> hub -> out-b"),
        {"in-a": (2, 0.2), "in-b": (2, 0.2), "hub": (5, 0.5), "out-a": (3, 0.3), "out-b": (3, 0.2)},
    ),
    "word-count": (
        ("lines -> split -> count fields",),
        {"lines": (2, 0.2), "split": (5, 0.9), "count": (6, 1.2)},
    ),
    "page-load": (
        ("views -> parse -> filter -> by-page fields -> total global",),
        {"views": (2, 0.1), "parse": (5, 0.9), "filter": (3, 0.2), "by-page": (4, 0.5), "total": (1, 0.1)},
    ),
}

#: Trees/s at which these take about two cores.
_RATE_TPS = 1_200.0

#: Errors of known costs, and of measurements of executors: deviations of logarithms.
_COSTS_OFF, _NOISE = 0.2, 0.02

#: Deviation of the logarithm of what tasks of a skewed component get.
_SKEW = 0.5

#: Deviation of the logarithm of the rates of a day.
_TRACE_NOISE = 0.05


class AdviceWorld(Protocol):
    """Environment that runs a topology for a window."""

    def run(self, wanted: TargetSize, wanted_tps: float) -> Observation:
        """Return the observation with the wanted executors, workers and placement at `wanted_tps` trees/s."""
        ...


@dataclass
class PredictedWorld:
    """A world that behaves as `predict` says with the true costs, observed with noise.

    It has one topology. Without a placement by the adviser, Storm's EvenScheduler places it on all nodes.

    Parameters
    ----------
    base
        The topology at some rate, with the true work of its executors and no CPU for messages in it, and all nodes.
    costs
        True costs of messages and workers.
    known_costs
        Costs known to advisers: a ``stormwright-calibration/1`` document.
    noise
        Deviation of the logarithm of each executor's measured CPU and traffic.
    seed
        Seed of the noise.
    """

    base: Problem
    costs: Costs
    known_costs: Mapping[str, Any]
    noise: float
    seed: int
    _random: np.random.Generator = field(init=False)

    def __post_init__(self) -> None:
        self._random = np.random.default_rng(self.seed)

    def run(self, wanted: TargetSize, wanted_tps: float) -> Observation:
        """Run a window; see `AdviceWorld`."""
        problem, slots = self._placed(wanted)
        placed, state = self._state(problem, slots, wanted_tps)
        if state.given_use[0] >= 1:
            # What is too much for those near goes to executors further away.
            spilling = steady_states(placed, placed.profile.rate_tps, placed.profile.rate_tps, [(self.costs, {})])
            highest_tps = float(spilling[1][0].highest_tps[0])
            placed, state = self._state(problem, slots, min(wanted_tps, highest_tps) * _JUST_BELOW)
        return observation_of(placed, state, 0, wanted_tps, self._measured(placed, state, slots))

    def _placed(self, wanted: TargetSize) -> tuple[Problem, IntArray]:
        index = self.base.topologies[0].component_index
        counts = {0: {index[name]: count for name, count in wanted.executors.items()}}
        problem = rebalanced(self.base, Profile.of(self.base), self.costs, counts)
        if wanted.problem is not None and wanted.assignment is not None:
            return replace(problem, supervisors=wanted.problem.supervisors), wanted.assignment.slot_of_executor
        one = replace(problem.topologies[0], num_workers=wanted.workers or len(problem.supervisors))
        problem = replace(problem, topologies=(one,))
        return problem, make_scheduler(BASELINE).schedule(problem).slot_of_executor

    def _state(self, problem: Problem, slots: IntArray, rate_tps: float) -> tuple[PlacedLoad, SteadyState]:
        now_tps = float(Profile.of(problem).rate_tps[0])
        scaled = with_rates(problem, np.array([rate_tps / now_tps]))
        profile = Profile.of(scaled)
        placed = PlacedLoad.under(profile, scaled, slots)
        return placed, steady_state(placed, profile.rate_tps, profile.rate_tps, self.costs)

    def _measured(self, placed: PlacedLoad, state: SteadyState, slots: IntArray) -> Problem:
        """Return the report of probe and pipeline: CPU including messages, and traffic, both with noise."""
        problem, demand = placed.problem, state.demand
        rate_tps = float(state.given.rate_tps[0])
        core_hz = demand.nodes.core_hz[problem.slot_node[slots]]
        cpu_hz = demand.thread_s[: problem.num_executors] * rate_tps * core_hz
        load = problem.loads[0]
        noisy_load: TopologyLoad = replace(
            load,
            cpu_hz=self._blurred(cpu_hz),
            pair_tps=self._blurred(load.pair_tps),
            flow_tps=self._blurred(load.flow_tps),
        )
        topology = problem.topologies[0]
        measured = problem.with_load(LoadProfile({topology.id: noisy_load}, costs=dict(self.known_costs)))
        return replace(measured, current=Assignment(slots).by_topology(measured), measured=None)

    def _blurred(self, amounts: FloatArray) -> FloatArray:
        blurred: FloatArray = amounts * np.exp(self.noise * self._random.standard_normal(len(amounts)))
        return blurred


@dataclass(frozen=True)
class AdviceCase:
    """A topology on nodes, the requirements, and the costs known to advisers.

    Parameters
    ----------
    name
        Shape of the topology, and variant of the load.
    base
        The topology with its true work and every node, at `rate_tps`; see `stormwright_lab.evaluations.advice_cases`.
    kinds
        Available kinds of nodes.
    costs, known_costs
        True costs of messages and workers, and those known to advisers.
    rate_tps
        Trees per second that the recommended size has to sustain.
    p95_factor
        Required latency relative to the true one of the cheapest sufficient size; None for no limit.
    noise, seed
        Noise of measurements, and its seed.
    """

    name: str
    base: Problem
    kinds: tuple[NodeKind, ...]
    costs: Costs
    known_costs: Mapping[str, Any]
    rate_tps: float
    p95_factor: float | None
    noise: float
    seed: int


def cases(scale: int = 1) -> list[AdviceCase]:
    """Return five shapes: plain, skewed, on two kinds of nodes, with a latency, and with more trees.

    Parameters
    ----------
    scale
        Factor of trees/s and tasks: with 1 an exhaustive search is possible.
    """
    found = []
    for number, shape in enumerate(_SHAPES):
        for variant, kind in enumerate(("alike", "skewed", "two kinds", "latency", "more trees")):
            found.append(_case(shape, kind, 10 * number + variant, scale))
    return found


def _case(shape: str, variant: str, seed: int, scale: int) -> AdviceCase:
    random = np.random.default_rng(seed)
    rate_tps = _RATE_TPS * float(random.uniform(0.8, 1.2)) * (1.4 if variant == "more trees" else 1.0)
    rate_tps *= scale
    base = _topology(shape, rate_tps, random, skewed=variant == "skewed", scale=scale)
    kinds = (_kind("medium", 2, 1.0), _kind("small", 1, 0.6)) if variant == "two kinds" else (_kind("medium", 2, 1.0),)
    costs = Costs()
    off = {
        name: getattr(costs, name) * float(np.exp(random.normal(0, _COSTS_OFF)))
        for name in ("serialise_us", "send_us", "receive_us", "worker_cores")
    }
    return AdviceCase(
        name=f"{shape}, {variant}",
        base=base,
        kinds=kinds,
        costs=costs,
        known_costs={"schema": "stormwright-calibration/1", "costs": off},
        rate_tps=rate_tps,
        p95_factor=0.7 if variant == "latency" else None,
        noise=_NOISE,
        seed=seed,
    )


def _kind(name: str, cores: int, price: float) -> NodeKind:
    resources = {CPU: 100.0 * cores, "memory.mb": 16_384.0}
    return NodeKind(name, Supervisor(name, name, (6700, 6701), cores * 3e9, resources=resources), price)


def _topology(shape: str, rate_tps: float, random: np.random.Generator, *, skewed: bool, scale: int) -> Problem:
    """Return the topology with an executor per task, random work around its shape, and twelve medium nodes."""
    chains, components = _SHAPES[shape]
    sized = list(chains)
    for name, (tasks, _) in components.items():
        first = next(number for number, chain in enumerate(sized) if name in chain.split())
        sized[first] = " ".join(f"{name} {tasks * scale}" if word == name else word for word in sized[first].split())
    nodes = tuple(replace(_kind("medium", 2, 1.0).node, id=f"node-{n}", host=f"node-{n}") for n in range(1, 13))
    made = sketch({shape: sized}, nodes=nodes)
    topology, load = made.topologies[0], made.loads[0]
    pair_tps = load.pair_tps
    if skewed:
        gets = random.lognormal(0.0, _SKEW, topology.num_executors)
        executor_component = topology.executor_component
        even = np.bincount(executor_component, gets) / np.bincount(executor_component)
        pair_tps = pair_tps * (gets / even[executor_component])[load.pair_target]
    load = replace(load, pair_tps=pair_tps, memory_mb=np.full(topology.num_executors, 128.0))
    made = made.with_load(LoadProfile({topology.id: load}))
    profile = Profile.of(made)
    each_ms = np.array([components[one.id][1] * random.uniform(0.8, 1.2) for one in topology.components])
    cpu_hz = each_ms[topology.executor_component] * 1e-3 * profile.handled_tps * made.core_hz
    made = made.with_load(LoadProfile({topology.id: replace(load, cpu_hz=cpu_hz)}))
    return with_rates(made, np.array([rate_tps / float(profile.rate_tps[0])]))


def traces(random: np.random.Generator) -> dict[str, FloatArray]:
    """Return parts of a case's rate by window: a step up and down, a slow rise, two days with noise."""
    day = 24
    hours = np.arange(2 * day)
    daily = 0.65 - 0.35 * np.cos(2 * np.pi * hours / day)
    return {
        "step": np.repeat([0.5, 1.0, 0.6], [6, 8, 10]),
        "ramp": np.concatenate([np.linspace(0.4, 1.0, 20), np.ones(4)]),
        "daily": daily * random.lognormal(0.0, _TRACE_NOISE, len(daily)),
    }
