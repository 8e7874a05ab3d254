"""Which cells there are: topologies × placements × limits, written down before the first of them was run.

Starts are in such an order that the first few of them have some of everything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from stormwright.model import Problem
from stormwright.model.arrays import IntArray
from stormwright.schedulers import make_scheduler

NODES = 3
SLOTS = 6

#: What decides the bottleneck differs: work, number of messages, their size, and how many of them follow the placement.
TOPOLOGIES: Mapping[str, str] = {
    "word-count": "word-count:spouts=2,split=4,count=4",
    "linear": "linear:bytes=100,work_us=20",
    "sol": "sol:bytes=2000",
    "page-load": "page-load:bytes=200,work_us=30",
    "diamond": "diamond:bytes=300",
    "advertising": "advertising:bytes=100",
    "star": "star:bytes=1000,work_us=10",
    "processing": "processing:bytes=200,work_us=5",
}

#: Of these the records were looked at while costs and models were chosen; of the others only errors, at the end.
DEVELOPED_ON = ("word-count", "sol", "diamond", "star")
NOT_LOOKED_AT = tuple(name for name in TOPOLOGIES if name not in DEVELOPED_ON)

#: Of it costs may be fitted: none of its runs is predicted.
CALIBRATION = "exclamation:spouts=3,exclaim1=3,exclaim2=2"


@dataclass(frozen=True)
class Limit:
    """What each node is held to."""

    cores: float
    link: str

    def __str__(self) -> str:
        return f"{self.cores:g} cores, {self.link}"


LIMITS = (Limit(0.4, "25mbit"), Limit(0.4, "100mbit"), Limit(0.25, "25mbit"))

#: Bolts that have nothing to do sleep for 1 ms at once. The topologies' own setting, 25 shorter waits before that, has
#: threads that get tuples now and then look for more all the time: they use up a quota that others need for work.
CONF: Mapping[str, int] = {
    "topology.bolt.wait.progressive.level2.count": 0,
    "topology.backpressure.wait.progressive.level2.count": 0,
}

#: Part of the highest measured rate at which latency is measured.
LIMITED = 0.7


def _even(problem: Problem) -> IntArray:
    return make_scheduler("even").schedule(problem).slot_of_executor


def _one(problem: Problem) -> IntArray:
    return np.zeros(problem.num_executors, np.int32)


def _halves(problem: Problem) -> IntArray:
    """The first half of each component's executors on one node, the second on another."""
    component = problem.topologies[0].executor_component
    half = np.zeros(len(component), np.int64)
    for own in (np.flatnonzero(component == c) for c in range(int(component.max()) + 1)):
        half[own] = 2 * np.arange(len(own)) // max(len(own), 1)
    return _first_slots(problem)[half]


def _apart(problem: Problem) -> IntArray:
    """Each component on one node, the next one on the next: next to everything crosses between nodes."""
    return _first_slots(problem)[problem.topologies[0].executor_component % NODES]


def _skewed(problem: Problem) -> IntArray:
    """Six in ten executors on one node, three on another, one on the last."""
    pattern = np.array([0, 1, 0, 2, 0, 1, 0, 0, 1, 0])
    return _first_slots(problem)[pattern[np.arange(problem.num_executors) % len(pattern)]]


def _scattered(problem: Problem) -> IntArray:
    return _first_slots(problem)[np.random.default_rng(7).integers(0, NODES, problem.num_executors)]


def _first_slots(problem: Problem) -> IntArray:
    return np.array([np.flatnonzero(problem.slot_node == node)[0] for node in range(NODES)], np.int32)


@dataclass(frozen=True)
class Placement:
    """A rule: a problem with one topology → the slot of each executor; and how many workers that makes."""

    rule: Callable[[Problem], IntArray]
    workers: int


PLACEMENTS: Mapping[str, Placement] = {
    "even": Placement(_even, 3),
    "one": Placement(_one, 1),
    "apart": Placement(_apart, 3),
    "halves": Placement(_halves, 2),
    "skewed": Placement(_skewed, 3),
    "scattered": Placement(_scattered, 3),
}


@dataclass(frozen=True)
class Start:
    """One start of a topology under a placement.

    All limits are measured in it, each at two rates; or those with the numbers in `only`, with as many trees as can be.
    """

    topology: str
    placement: str
    repeat: int = 0
    only: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        """For a file."""
        under = "".join(f"-{number}" for number in self.only)
        return f"{self.topology}.{self.placement}{under}.{self.repeat}"

    @property
    def submission(self) -> str:
        """What is submitted."""
        return TOPOLOGIES.get(self.topology, CALIBRATION)

    @property
    def limits(self) -> tuple[Limit, ...]:
        """In the order in which they are measured: none is always the one with the oldest JVMs."""
        if self.only:
            return tuple(LIMITS[number] for number in self.only)
        turn = list(PLACEMENTS).index(self.placement) % len(LIMITS)
        return LIMITS[turn:] + LIMITS[:turn]


#: Started five times each, for how far two measurements of the same are apart.
REPEATED = (Start("word-count", "even"), Start("processing", "apart"))
REPEATS = 5


def starts() -> list[Start]:
    """All of them, in the order in which they run: repeats in between, as far apart as can be."""
    topologies, placements = list(TOPOLOGIES), list(PLACEMENTS)
    each = [
        Start(topology, placements[(number + turn) % len(placements)])
        for turn in range(len(placements))
        for number, topology in enumerate(topologies)
    ]
    again = [Start("calibration", "scattered"), Start("calibration", "even")]
    again += [replace(start, repeat=repeat) for repeat in range(1, REPEATS) for start in REPEATED]
    apart = -(-len(each) // len(again))
    groups = (each[begin : begin + apart] for begin in range(0, len(each), apart))
    return [start for one, group in zip(again, groups, strict=True) for start in (one, *group)]
