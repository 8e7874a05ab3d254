"""Advice on capacity, carried out on a real cluster, compared with DS2 from the same start.

    python -m benchmarks.storm.advice run [--starts 3] [--only TEXT]
    python -m benchmarks.storm.advice compare

A topology begins with one executor of each component in two workers; its load is measured at the highest rate that it
reaches, and so is the CPU that workers get of a full node. From this one measurement each adviser says what a rate
needs; `storm rebalance`, as by `stormwright advise --apply`, carries it out, and the rate is measured. DS2 goes on from
what it has measured, three times at most; it says nothing of nodes, so Storm's EvenScheduler places its executors on
all of them. Where the rate is reached, one node fewer is offered the rate raised by the headroom: the advised nodes are
the fewest if what it reaches is below the rate. `run` stores each start and resumes; `compare` needs no cluster.

Threads without work sleep, nodes have no standby workers and JVMs only their first compiler. Otherwise idle threads,
the next standby and the second compiler take a third of a node's quota for a minute after each rebalance.
"""

from __future__ import annotations

import argparse
import json
import logging
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from stormwright_lab.advisers.rules import Ds2
from stormwright_lab.evaluations.cells import Cell, CellTimes
from stormwright_lab.evaluations.definitions import SLEEPING, Block, Variant
from stormwright_lab.evaluations.lab.cluster import ClusterLab
from stormwright_lab.evaluations.lab.phases import ARRIVE_S, SETTLE_S, ids_of
from stormwright_lab.evaluations.lab.steady import warm_for_costs, with_load
from stormwright_lab.evaluations.placing import by_host, named

from benchmarks.kit.results import DIRECTORY, show_progress, stamp, write_results
from stormwright.advise.adviser import TargetSize
from stormwright.advise.commands import orders_of
from stormwright.advise.observed import observed
from stormwright.advise.search.advise import advised
from stormwright.advise.search.goals import AdviceGoals
from stormwright.errors import ClusterError, InputError, StormwrightError
from stormwright.model import Problem
from stormwright.model.arrays import IntArray
from stormwright.schedulers import make_scheduler
from stormwright.storm.local_cluster import LocalClusterConfig
from stormwright.workbench.demo.measure import measure

log = logging.getLogger(__name__)


#: Code that the page measures.
MEASURES = ("src/stormwright/advise", "src/stormwright/predict", "lab/src/stormwright_lab/evaluations/lab")


RUNS = DIRECTORY / "storm-advice"

#: Topologies, each component with as many tasks as `_TASKS`.
TOPOLOGIES: Mapping[str, str] = {
    "word count": "word-count:spouts=1,split=1,count=1,ackers=1,pending=50",
    "linear": "linear:spout=1,bolt-1=1,bolt-2=1,bolt-3=1,ackers=1,pending=50,work_us=100,bytes=100",
    "page load": "page-load:spout=1,transform=1,filter-1=1,join=1,filter-2=1,aggregate=1,sink=1,ackers=1,pending=50,"
    "work_us=60",
    "star": "star:spout-1=1,spout-2=1,center=1,sink-1=1,sink-2=1,ackers=1,pending=50,work_us=80,bytes=200",
}

#: Wanted rates as multiples of the highest that the topology reaches at its start.
FACTORS = (0.9, 1.3, 1.7)

_TASKS, _WORKERS, _STEPS = 8, 2, 3

#: Part of the wanted rate that counts as reached.
REACHED = 0.97

HEADROOM = AdviceGoals().headroom

TIMES = CellTimes()

#: Seconds until all workers of a rebalanced topology report.
_BACK_S = 120.0

_CONF = {"topology.tasks": _TASKS, "topology.worker.childopts": "-XX:TieredStopAtLevel=1", **SLEEPING}


@dataclass(frozen=True)
class Trial:
    """A size that was carried out: executors and nodes, and the trees/s wanted and reached."""

    executors: Mapping[str, int]
    nodes: int
    wanted_tps: float
    reached_tps: float

    @property
    def reached(self) -> bool:
        """Whether the rate was reached."""
        return self.reached_tps >= REACHED * self.wanted_tps

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {**self.__dict__, "executors": dict(self.executors)}


class AdviceLab(ClusterLab):
    """A local cluster whose nodes have no standby workers."""

    def _config(self) -> LocalClusterConfig:
        return replace(super()._config(), standbys=0)


class AdvisedTopology:
    """A running topology whose executors, workers and placement change."""

    def __init__(self, lab: ClusterLab, block: Block, problem: Problem) -> None:
        self._lab, self._block, self._problem = lab, block, problem
        self._name = problem.topologies[0].name

    def measured(self, wanted_tps: float, with_costs: bool = False) -> tuple[Trial, Problem]:
        """Run at a rate and return what was reached, and the problem with its load.

        Parameters
        ----------
        wanted_tps
            Trees/s that the spouts begin; 0 for as many as they can.
        with_costs
            Whether to go on until workers have run long enough for costs to be fitted, as by a service.
        """
        lab, block, problem = self._lab, self._block, self._problem
        lab.limit(block)
        lab.set_rate(wanted_tps)
        time.sleep(2 * SETTLE_S)
        start_ms = time.time() * 1000
        time.sleep(TIMES.sample_s * TIMES.samples)
        end_ms = time.time() * 1000
        time.sleep(ARRIVE_S)
        load_ms = warm_for_costs(lab, problem) if with_costs else end_ms
        records = lab.records(ids_of(problem))
        run = measure(records, problem.topologies[0].id, start_ms, end_ms)
        own = [record for record in records if start_ms <= record["start_ms"] <= load_ms]
        nodes = len(np.unique(problem.slot_node[problem.current_slot]))
        trial = Trial(problem.topologies[0].executor_counts, nodes, wanted_tps, run.acked_tps)
        log.info(
            "%s: %s on %d nodes: %.0f of %.0f trees/s",
            self._name,
            dict(trial.executors),
            nodes,
            run.acked_tps,
            wanted_tps,
        )
        return trial, with_load(problem, own, lab.cores_in(block), block.link, following=True)

    def carry_out(
        self, executors: Mapping[str, int], workers: int, placement: Sequence[tuple[int, int]] | None
    ) -> None:
        """Rebalance the topology, and wait until all workers report and are warm.

        Parameters
        ----------
        executors, workers
            Executors by component, and workers.
        placement
            Node, in the order of hosts, and port of each executor; None for the placement by Storm's EvenScheduler.
        """
        lab = self._lab
        lab.set_rate(0)
        lab.lift_limits(self._block)
        lab.scheduler.wanted = {} if placement is None else {self._name: placement}
        now = self._problem.topologies[0].executor_counts
        changed = {name: count for name, count in executors.items() if count != now[name]}
        began = time.monotonic()
        lab.nimbus.rebalance(self._name, 1, workers, changed or None)
        self._problem = self._back(executors, placement, began)
        lab.warm_up(self._problem, TIMES.warm_s)

    def _back(self, executors: Mapping[str, int], placement: Sequence[tuple[int, int]] | None, began: float) -> Problem:
        while time.monotonic() - began < _BACK_S:
            time.sleep(0.5)
            problem = self._lab.snapshot([self._name])
            if problem is None or not problem.current or problem.topologies[0].executor_counts != dict(executors):
                continue
            if placement is not None and list(named(problem, problem.current_slot)[0]) != list(placement):
                continue
            topology = problem.topologies[0]
            slots = [problem.slots[slot] for slot in np.unique(problem.current_slot)]
            if all(self._lab.tally.reports(topology.id, s.supervisor, s.port, frozenset(), began + 2) for s in slots):
                return problem
        raise ClusterError(f"{self._name} does not run as advised after {_BACK_S:g} s")


def placement_of(problem: Problem, slots: IntArray, whole: Problem) -> list[tuple[int, int]]:
    """Return a placement on some nodes as nodes of the whole cluster in the order of hosts, and ports."""
    position = {node: number for number, node in enumerate(by_host(whole))}
    own = [problem.slots[slot] for slot in slots.tolist()]
    return [(position[int(whole.slot_node[whole.slot_index[slot]])], slot.port) for slot in own]


def start_of(lab: ClusterLab, name: str, start: int) -> dict[str, Any]:
    """Run a topology from its start to every wanted rate, by every adviser."""
    block = Block(name, (TOPOLOGIES[name],), {"even": Variant("even")}, workers=_WORKERS, conf=_CONF)
    with lab.running(Cell("advice", block, "even", start, TIMES), None) as problem:
        topology = AdvisedTopology(lab, block, problem)
        lab.warm_up(problem, TIMES.warm_s)
        lab.limit(block)
        first, loaded = topology.measured(0.0, with_costs=True)
        measured, highest_tps = _with_usable_cpu(loaded), first.reached_tps
        rates = []
        for factor in FACTORS:
            rate_tps = factor * highest_tps
            rates.append({"factor": factor, "rate_tps": rate_tps, **_ours(topology, measured, rate_tps)})
            rates[-1]["ds2"] = [trial.as_dict() for trial in _ds2(topology, measured, rate_tps)]
        return {"topology": name, "start": start, "highest_tps": highest_tps, "rates": rates}


def _with_usable_cpu(loaded: Problem) -> Problem:
    """Return the problem with the CPU that workers got on the fullest node: daemons and unused slices take the rest."""
    if loaded.load is None:
        raise ClusterError("no load was measured")
    usable_hz = max(loaded.load.node_cpu_hz.values())
    return replace(loaded, supervisors=tuple(replace(node, cpu_hz=usable_hz) for node in loaded.supervisors))


def _ours(topology: AdvisedTopology, measured: Problem, rate_tps: float) -> dict[str, Any]:
    """Carry out our advice, and try the rate raised by the headroom on one node fewer."""
    goals = AdviceGoals(rates={"": rate_tps}, max_nodes=len(measured.supervisors))
    try:
        advice = advised(measured, goals, alternatives=False)
    except InputError as error:
        return {"refused": str(error)}
    executors = advice.problem.topologies[0].executor_counts
    orders = orders_of(advice)
    placement = placement_of(advice.problem, advice.assignment.slot_of_executor, measured)
    workers = len(set(placement))
    topology.carry_out(executors, workers, placement)
    trial, _ = topology.measured(rate_tps)
    found: dict[str, Any] = {"command": orders[0].command if orders else "", "ours": trial.as_dict()}
    nodes = {node for node, _ in placement}
    if trial.reached and len(nodes) > 1:
        fewer = _on_fewer_nodes(advice.problem, measured, len(nodes) - 1)
        topology.carry_out(executors, len(set(fewer)), fewer)
        found["fewer"] = topology.measured(rate_tps / (1 - HEADROOM))[0].as_dict()
    return found


def _on_fewer_nodes(advised_problem: Problem, whole: Problem, nodes: int) -> list[tuple[int, int]]:
    """Return the placement of highest predicted rate on some nodes."""
    few = replace(advised_problem, supervisors=whole.supervisors[:nodes], current={})
    optimizer = make_scheduler("optimizer", {"objective": "throughput", "time_budget_s": 2.0})
    return placement_of(few, optimizer.schedule(few).slot_of_executor, whole)


def _ds2(topology: AdvisedTopology, measured: Problem, rate_tps: float) -> Iterator[Trial]:
    """Yield the steps of DS2 until it reaches the rate or changes nothing."""
    problem, target = measured, Ds2(1 / (1 - HEADROOM))
    for _ in range(_STEPS):
        wanted: TargetSize = target.advise(observed(problem, 0, rate_tps))
        executors = {**problem.topologies[0].executor_counts, **wanted.executors}
        if problem is not measured and executors == problem.topologies[0].executor_counts:
            return
        topology.carry_out(executors, len(measured.supervisors), None)
        trial, problem = topology.measured(rate_tps)
        yield trial
        if trial.reached:
            return


def main() -> None:
    """Run what is left, or compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("run", "compare"))
    parser.add_argument("--starts", type=int, default=3, help="of each topology")
    parser.add_argument("--only", default="", help="topologies with this in their name")
    options = parser.parse_args()
    if options.what == "compare":
        compare()
        return
    show_progress()
    RUNS.mkdir(parents=True, exist_ok=True)
    wanted = [(start, name) for start in range(options.starts) for name in TOPOLOGIES if options.only in name]
    left = [(start, name) for start, name in wanted if not _file(name, start).exists()]
    if not left:
        return
    with AdviceLab("steady") as lab:
        for start, name in left:
            try:
                found = {**stamp(), **start_of(lab, name, start)}
            except StormwrightError as error:
                log.warning("%s, start %d: %s", name, start, error)
                found = {**stamp(), "topology": name, "start": start, "failed": str(error), "rates": []}
            _file(name, start).write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def _file(name: str, start: int) -> Path:
    return RUNS / f"{name.replace(' ', '-')}.{start}.json"


def compare() -> None:
    """Write the page from all starts."""
    starts = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(RUNS.glob("*.json"))]
    pairs: dict[tuple[str, float], list[dict[str, Any]]] = {}
    for one in starts:
        for rate in one["rates"]:
            pairs.setdefault((one["topology"], rate["factor"]), []).append(rate)
    failed = sum("failed" in one for one in starts)
    rows = [
        ("(topology, rate) pairs, starts", "≥ 12, ≥ 3", f"{len(pairs)}, {min(map(len, pairs.values()))} or more"),
        ("starts that failed: an advised size did not come up", "0", str(failed)),
        ("rate reached in one step, in most starts", "≥ 10 of 12", _count(pairs, _reached)),
        ("nodes as few as found by trying, in most starts", "≥ 10 of 12", _count(pairs, _fewest)),
        ("one node fewer does not sustain the rate raised by the headroom, in most starts", "", _count(pairs, _spare)),
        ("DS2: rate reached in one step, in most starts", "", _count(pairs, lambda rate: _steps(rate) == 1)),
        (
            f"DS2: rate reached in {_STEPS} steps, in most starts",
            "",
            _count(pairs, lambda rate: _steps(rate) is not None),
        ),
    ]
    rows += [
        (f"{name}, {factor:g} × the highest rate of its start", "", _pair(runs))
        for (name, factor), runs in pairs.items()
    ]
    title = "Advice on capacity, carried out on a real cluster of five nodes"
    write_results("storm-advice", title, rows, {"starts": starts})


def _count(pairs: Mapping[Any, Sequence[Mapping[str, Any]]], holds: Any) -> str:
    return f"{sum(2 * sum(map(holds, runs)) > len(runs) for runs in pairs.values())} of {len(pairs)}"


def _reached(rate: Mapping[str, Any]) -> bool:
    return "ours" in rate and rate["ours"]["reached_tps"] >= REACHED * rate["ours"]["wanted_tps"]


def _fewest(rate: Mapping[str, Any]) -> bool:
    """Return whether the rate is reached, and not on one node fewer."""
    fewer = rate.get("fewer")
    return _reached(rate) and (fewer is None or fewer["reached_tps"] < REACHED * rate["ours"]["wanted_tps"])


def _spare(rate: Mapping[str, Any]) -> bool:
    """Return whether the rate is reached, and on one node fewer not with the headroom."""
    fewer = rate.get("fewer")
    return _reached(rate) and (fewer is None or fewer["reached_tps"] < REACHED * fewer["wanted_tps"])


def _steps(rate: Mapping[str, Any]) -> int | None:
    """Return the steps of DS2 to the rate; None if it was not reached."""
    steps = rate["ds2"]
    return len(steps) if steps and steps[-1]["reached_tps"] >= REACHED * steps[-1]["wanted_tps"] else None


def _pair(runs: Sequence[Mapping[str, Any]]) -> str:
    ours = [run["ours"] for run in runs if "ours" in run]
    parts = [f"{one['reached_tps'] / one['wanted_tps']:.0%} on {one['nodes']}" for one in ours]
    fewer = [f"{run['fewer']['reached_tps'] / run['ours']['wanted_tps']:.0%}" for run in runs if "fewer" in run]
    ds2 = [f"{run['ds2'][-1]['reached_tps'] / run['ds2'][-1]['wanted_tps']:.0%} in {len(run['ds2'])}" for run in runs]
    refused = Counter("refused" for run in runs if "refused" in run)
    text = f"ours {', '.join(parts)} nodes" if parts else "ours"
    text += f"; refused in {refused['refused']}" if refused else ""
    text += f"; on one node fewer {', '.join(fewer)}" if fewer else ""
    return f"{text}; DS2 {', '.join(ds2)} steps, on five nodes"


if __name__ == "__main__":
    main()
