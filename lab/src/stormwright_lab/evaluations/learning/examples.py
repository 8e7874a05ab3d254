"""Training examples: features of placements of problems, and their distance from the best."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from stormwright.defaults import BASELINE
from stormwright.errors import Fault, InputError, StormwrightError
from stormwright.formats import read_json, write_json
from stormwright.formats.sketch import sketch
from stormwright.model import UNPLACED, LoadProfile, Problem, Supervisor, Topology, TopologyLoad
from stormwright.model.arrays import FloatArray, IntArray
from stormwright.model.cluster import DEFAULT_CORE_HZ
from stormwright.schedulers import make_scheduler
from stormwright.schedulers.learned import cheap_rules
from stormwright.schedulers.portfolio.evaluation import PlacementEvaluator
from stormwright.schedulers.portfolio.features import FEATURES, FeatureExtractor
from stormwright.schedulers.portfolio.model import digest_of
from stormwright.schedulers.portfolio.variants import Variants
from stormwright.schedulers.toolkit.limits import with_room_for_cpu
from stormwright.schedulers.toolkit.resolve import scheduler_keeping_running

#: Nominal measuring time of each load; only its presence matters.
_MEASURED_MS: Final = 60_000

_GROUPINGS: Final = ("shuffle", "shuffle", "fields", "fields", "local_or_shuffle", "global")

#: Of all CPU, the part that a load takes without its messages: what is measured fits under most placements.
_MIN_USED, _MAX_USED = 0.15, 0.6

_CORES: Final = (0.25, 0.5, 1.0, 2.0, 4.0)

_GBIT: Final = 1e9

EXAMPLES_SCHEMA: Final = "stormwright-examples/1"

#: Maximum badness: worse placements need not be distinguished.
_MAX_BAD: Final = 2.0

#: Steps away from answers that are looked at besides, of each problem; and how far they go.
_STEPS, _FAR = 12, 4


def random_problem(rng: np.random.Generator, name: str) -> Problem:
    """Return a random problem: one to four topologies on three to twelve nodes, fast or slow links.

    Its load is as if it had been measured under Storm's own placement.

    Parameters
    ----------
    rng
        Source of all random numbers.
    name
        Name of the problem.
    """
    chains = {f"t{number}": _chains(rng) for number in range(int(rng.choice([1, 1, 1, 2, 3, 4])))}
    problem = sketch(chains, nodes=_nodes(rng), rate_tps=float(rng.uniform(100, 2_000)))
    return replace(measured(problem, rng), name=name)


def measured(problem: Problem, rng: np.random.Generator) -> Problem:
    """Return the problem with random work and tuple sizes per component, measured under Storm's placement.

    Parameters
    ----------
    problem
        Problem from `stormwright.sketch`, with rates and no current placement.
    rng
        Source of all random numbers.
    """
    worked = [_worked(topology, load, rng) for topology, load in zip(problem.topologies, problem.loads, strict=True)]
    there = float(problem.node_cpu_hz.sum())
    requested_hz = sum(float(load.cpu_hz.sum()) for load in worked)
    factor = there * rng.uniform(_MIN_USED, _MAX_USED) / requested_hz
    most = max(float(load.cpu_hz.max()) for load in worked)
    factor = min(factor, 0.9 * problem.core_hz / most)  # a thread has no more than its core
    loads = {each.id: _times(load, factor) for each, load in zip(problem.topologies, worked, strict=True)}
    loaded = problem.with_load(LoadProfile(loads, end_ms=_MEASURED_MS))
    return loaded.with_current(make_scheduler(BASELINE).schedule(loaded).by_topology(loaded))


def _chains(rng: np.random.Generator) -> list[str]:
    """Return a chain, and possibly a branch that leaves and rejoins it."""
    length = int(rng.integers(2, 7))
    steps = [f"c{n} {int(rng.integers(1, 9))}" for n in range(length)]
    kinds = rng.choice(_GROUPINGS, length)
    chain = [steps[0], *(f"{step} {kind}" for step, kind in zip(steps[1:], kinds[1:], strict=True))]
    found = [" -> ".join(chain)]
    if length >= 3 and rng.random() < 0.5:
        begin = int(rng.integers(0, length - 2))
        end = int(rng.integers(begin + 2, length))
        found.append(f"c{begin} -> side {int(rng.integers(1, 9))} {rng.choice(_GROUPINGS)} -> c{end}")
    return found


def _nodes(rng: np.random.Generator) -> tuple[Supervisor, ...]:
    count, racks = int(rng.integers(3, 13)), int(rng.choice([1, 1, 1, 2, 3]))
    cores = rng.choice(_CORES, count) if rng.random() < 0.4 else np.full(count, rng.choice(_CORES))
    link = float(rng.choice([0.025, 0.1, 1, 10])) * _GBIT if rng.random() < 0.8 else None
    ports = tuple(range(6700, 6700 + int(rng.integers(4, 9))))
    return tuple(
        Supervisor(
            f"node-{n}",
            f"node-{n}",
            ports,
            float(cores[n]) * DEFAULT_CORE_HZ,
            rack=f"rack-{n % racks}",
            resources={"cpu.pcore.percent": 100 * float(cores[n]), "memory.mb": 262_144.0},
            link_bps=link,
        )
        for n in range(count)
    )


def _worked(topology: Topology, load: TopologyLoad, rng: np.random.Generator) -> TopologyLoad:
    """Return a load with CPU by tuples handled, and bytes by the sending components."""
    component, count = topology.executor_component, len(topology.components)
    received: FloatArray = np.bincount(load.pair_target, load.pair_tps, len(component)).astype(np.float64)
    size = np.bincount(component, minlength=count)
    of_flows = np.bincount(load.flow_component, load.flow_tps, count) / np.maximum(size, 1)
    received = received + of_flows[component]
    sent = np.bincount(load.pair_source, load.pair_tps, len(component))
    sent = sent + np.bincount(load.flow_source, load.flow_tps, len(component))
    handled = np.where(received > 0, received, np.maximum(sent, 1.0))
    work_us = rng.lognormal(np.log(20), 1.0, count)
    bytes_each = np.exp(rng.uniform(np.log(30), np.log(3_000), count))
    return replace(
        load,
        cpu_hz=handled * work_us[component] * 1e-6 * DEFAULT_CORE_HZ,
        pair_bytes_per_s=load.pair_tps * bytes_each[component[load.pair_source]],
        flow_bytes_per_s=load.flow_tps * bytes_each[component[load.flow_source]],
    )


def _times(load: TopologyLoad, factor: float) -> TopologyLoad:
    """Return the load at another rate."""
    amounts = ("cpu_hz", "pair_tps", "flow_tps", "pair_bytes_per_s", "flow_bytes_per_s")
    return replace(load, **{name: getattr(load, name) * factor for name in amounts})


@dataclass(frozen=True, eq=False)
class Group:
    """Placements of one problem.

    Parameters
    ----------
    name
        Name of the problem.
    kind
        Kind for cross-validation: groups of one kind (a measured topology) are never split between training and test.
    features
        Features of each placement, as from `FeatureExtractor.features`, shape (n, F).
    badness
        Logarithm of how much worse each one is than the best, at least 0, shape (n,).
    """

    name: str
    kind: str
    features: FloatArray
    badness: FloatArray

    @classmethod
    def of(cls, name: str, kind: str, features: Sequence[FloatArray], badness: Sequence[float]) -> Group:
        """Return a group with normalised badness: the lowest becomes 0.

        Parameters
        ----------
        name, kind, features
            As in the class.
        badness
            Badness of each placement, relative to any constant.
        """
        worse = np.array(badness) - min(badness)
        return cls(name, kind, np.array(features), np.asarray(np.round(np.minimum(worse, _MAX_BAD), 6)))

    def as_dict(self) -> dict[str, Any]:
        """Return the group as JSON."""
        values = {"features": self.features.tolist(), "badness": self.badness.tolist()}
        return {"name": self.name, "kind": self.kind, **values}


def random_examples(problems: int, seed: int) -> Iterator[Group]:
    """Yield placements of random problems with their predicted quality.

    Parameters
    ----------
    problems
        Number of random problems; those without a usable prediction are left out.
    seed
        Seed of the random numbers; each problem depends on it and on its position only.
    """
    for number in range(problems):
        rng = np.random.default_rng([seed, number])
        name = f"drawn-{seed}-{number}"
        if (found := predicted_examples(random_problem(rng, name), rng)) is not None:
            yield found


def predicted_examples(problem: Problem, rng: np.random.Generator, kind: str = "") -> Group | None:
    """Return placements of a problem with their predicted quality: cheap rules and random steps from them.

    Parameters
    ----------
    problem
        Problem with a measured load.
    rng
        Random generator of the steps.
    kind
        Kind of the `Group`; by default the problem's name.

    Returns
    -------
    Group or None
        None where there are not two placements that differ.
    """
    placements = list(some_placements(problem, rng))
    if len(placements) < 2:
        return None
    return group_of(problem, problem.name, kind or problem.name, placements)


def group_of(problem: Problem, name: str, kind: str, placements: Sequence[IntArray]) -> Group:
    """Return placements of a problem with a measured load, with their predicted quality.

    Parameters
    ----------
    problem
        Nodes, topologies and the measured load by which quality is predicted.
    name, kind
        Name and kind of the group.
    placements
        Slots of all executors, two placements at least.
    """
    evaluator, extractor = PlacementEvaluator(problem, "throughput"), FeatureExtractor(problem)
    # `badness` is that of the worst topology plus a tenth of the mean.
    badness = [evaluator.badness(slots) / 1.1 for slots in placements]
    return Group.of(name, kind, [extractor.features(slots) for slots in placements], badness)


def some_placements(problem: Problem, rng: np.random.Generator) -> Iterator[IntArray]:
    """Yield distinct placements: the current one, answers of cheap rules, and random steps from them.

    Parameters
    ----------
    problem
        Nodes and topologies; a complete current placement is yielded first.
    rng
        Random generator of the steps.
    """
    empty, known = problem.with_nothing_running(), set()
    answers = [problem.current_slot, *(answer_of(name, empty) for name in cheap_rules(problem.num_executors))]
    whole = [slots for slots in answers if slots is not None and np.all(slots != UNPLACED)]
    variants = Variants(empty, rng)
    for slots in [*whole, *_away(whole, variants, rng)]:
        if (key := slots.tobytes()) not in known:
            known.add(key)
            yield slots


def answer_of(name: str, problem: Problem) -> IntArray | None:
    """Return the answer of a rule without a CPU limit; None if it fails."""
    try:
        return scheduler_keeping_running(name).schedule(with_room_for_cpu(problem)).slot_of_executor
    except StormwrightError:
        return None


def _away(placements: Sequence[IntArray], variants: Variants, rng: np.random.Generator) -> Iterator[IntArray]:
    for _ in range(_STEPS if placements else 0):
        slots = placements[int(rng.integers(len(placements)))]
        for _ in range(int(rng.integers(1, _FAR + 1))):
            slots = next(variants.of(slots, 1), slots)
        yield slots


def examples_to_dict(groups: Iterable[Group], made: str) -> dict[str, Any]:
    """Return examples as a document, with their origin and digest."""
    content = {
        "schema": EXAMPLES_SCHEMA,
        "made": made,
        "features": list(FEATURES),
        "groups": [group.as_dict() for group in groups],
    }
    return {**content, "digest": digest_of(content)}


def write_examples(path: Path, groups: Iterable[Group], made: str) -> None:
    """Write a file of examples, gzipped if its name ends in ``.gz``."""
    write_json(path, examples_to_dict(groups, made))


def read_examples(path: Path) -> list[Group]:
    """Return the examples in the file at `path`.

    Raises
    ------
    InputError
        It cannot be read, is damaged or another kind of file, or has other features than this version.
    """
    document = read_json(path)
    if not isinstance(document, dict) or document.get("schema") != EXAMPLES_SCHEMA:
        raise InputError(
            str(path), [Fault(f"should be {EXAMPLES_SCHEMA}, as `stormwright learn` writes it", "$.schema")]
        )
    content = {name: value for name, value in document.items() if name != "digest"}
    if digest_of(content) != document.get("digest"):
        raise InputError(str(path), [Fault("is not what was written: its digest does not match", "$.digest")])
    if document["features"] != list(FEATURES):
        raise InputError(str(path), [Fault("has other features than this version: create it again", "$.features")])
    return [
        Group(one["name"], one["kind"], np.array(one["features"], dtype=np.float64), np.array(one["badness"]))
        for one in document["groups"]
    ]
