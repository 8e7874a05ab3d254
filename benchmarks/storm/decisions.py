"""Whether what is promised of a placement comes true: decisions of a service that knows nothing, on a real cluster.

    python -m benchmarks.storm.decisions run [--only TEXT] [--minutes 60] [--starts 3] [--phases first,beside]
    python -m benchmarks.storm.decisions compare
    python -m benchmarks.storm.decisions list

A cell is one to three topologies on three nodes with their own CPU and links; `CELLS` was committed before the first
of them ran. The first start is under Storm's EvenScheduler; from its records alone costs are fitted, and the service's
rule decides. What it decides, and what `online`, `r_storm` and one worker would have, then takes turns with Even, a
start of new workers each (`cells/interleaved.py`). Rates are compared over starts; the speed of the machine stands
beside them and corrects nothing. In phase `next` the service goes on from the best placement so far, with costs fitted
to all records, for up to two more decisions; in phase `nodes` spouts are held to a part of Even's rate, which is to be
held on as few nodes as can be. `compare` needs no cluster.
"""

from __future__ import annotations

import argparse
import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

import numpy as np
from stormwright_lab.evaluations.lab.steady import with_load

from benchmarks.cells.interleaved import Bench, Cell, slot_numbers, slots_of, stored
from benchmarks.kit.results import DIRECTORY, show_progress, write_results
from stormwright.controller.objectives.objective import PlacementAim
from stormwright.controller.objectives.outlook import THROUGHPUT, least_gain_percent
from stormwright.controller.planning.order import MoveBudget
from stormwright.controller.planning.valid_moves import planned_slots
from stormwright.controller.policy import DecisionTimes, decide
from stormwright.formats import problem_from_dict
from stormwright.history.evaluation.comparison import StartComparison, compare_starts
from stormwright.model import Problem
from stormwright.model.arrays import IndexArray, IntArray
from stormwright.model.requests import CPU
from stormwright.predict.answer import Assumptions, predict
from stormwright.predict.calibration.calibration import calibrated, learn
from stormwright.predict.calibration.document import costs_to_dict
from stormwright.predict.calibration.evidence import Evidence
from stormwright.predict.calibration.windows import Windows
from stormwright.predict.gain import RateGain, rate_gain, together
from stormwright.predict.prediction import Prediction
from stormwright.schedulers import make_scheduler
from stormwright.schedulers.toolkit.triggers import TriggerParams

#: Code that the page measures.
MEASURES = (
    "src/stormwright/optimize",
    "src/stormwright/predict",
    "src/stormwright/schedulers/optimizer.py",
    "src/stormwright/controller/policy.py",
    "src/stormwright/controller/objectives",
)

log = logging.getLogger("cells")

RECORDS = DIRECTORY / "storm-decisions"

#: Seconds under the limits before a start is measured, and measured.
WARM_UP_S, MEASURE_S = 30.0, 20.0

EVEN, DECIDED, ONE = "even", "decided", "one"

#: Decisions after the first, and placements that a service has had by itself.
NEXT = ("second", "third")
OURS = (EVEN, DECIDED, *NEXT)

PHASES = ("first", "beside", "next", "nodes")

#: Part of Even's rate that is to be held on few nodes, and what counts as held.
LIMITED, HELD = 0.4, 0.98

#: Placements that are measured beside Even and what is decided, where they differ from these.
BESIDE = ("online", "r_storm", "top_storm", "proportional", "strongest", ONE)

#: Starts of a cell that is not moved.
_UNMOVED_STARTS = 2

#: What counts as not below another rate.
NOT_BELOW = 0.97

_C1, _DEFAULT = "first compiler", "default"

#: Half of each kind with default options of the JVM, half with the first compiler; half of the topologies were not
#: looked at while the model was made.
CELLS = (
    Cell(("page-load:bytes=200,work_us=30",), 0.4, "25mbit", _C1),
    Cell(("word-count",), 0.4, "25mbit", _C1, developed_on=True),
    Cell(("linear:bytes=100,work_us=20",), 0.4, "25mbit", _DEFAULT),
    Cell(("exclamation",), 0.5, "60mbit", _C1, developed_on=True),
    Cell(("processing:bytes=200,work_us=5",), 0.4, "25mbit", _C1),
    Cell(("diamond",), 0.4, "25mbit", _DEFAULT, developed_on=True),
    Cell(("advertising:bytes=100",), 0.4, "25mbit", _C1),
    Cell(("rolling-top-words",), 0.35, "20mbit", _C1),
    Cell(("star:bytes=1000,work_us=10",), 0.4, "25mbit", _DEFAULT, developed_on=True),
    Cell(("sol:bytes=2000",), 0.4, "40mbit", _DEFAULT, developed_on=True),
    Cell(("page-load:bytes=200,work_us=30",), 0.5, "100mbit", _DEFAULT),
    Cell(("word-count:spouts=5,split=8,count=12",), 0.5, "20mbit", _DEFAULT, developed_on=True),
    Cell(("word-count", "word-count"), 0.4, "25mbit", _C1, developed_on=True),
    Cell(("processing:bytes=200,work_us=5", "page-load:bytes=200,work_us=30"), 0.4, "25mbit", _C1),
    Cell(("word-count", "linear:bytes=100,work_us=20", "diamond:bytes=300"), 0.4, "25mbit", _DEFAULT),
    Cell(("exclamation", "rolling-top-words"), 0.5, "40mbit", _C1),
    Cell(("advertising:bytes=100", "star:bytes=1000,work_us=10"), 0.5, "25mbit", _DEFAULT),
    Cell(("sol:bytes=2000", "word-count"), 0.4, "40mbit", _DEFAULT, developed_on=True),
)

#: Nodes of unlike CPU, and of unlike links besides.
_CORES, _OTHER_CORES = (0.7, 0.4, 0.25), (0.3, 0.6, 0.45)
_LINKS = ("60mbit", "20mbit", "60mbit")

#: The same on nodes that are unlike; the first four alone and the first three together were looked at.
UNLIKE = (
    Cell(("word-count:spouts=4,split=8,count=8",), _CORES, "60mbit", _C1, developed_on=True),
    Cell(("linear:bytes=100,work_us=20",), _CORES, "60mbit", _C1, developed_on=True),
    Cell(("diamond:bytes=300",), _OTHER_CORES, "60mbit", _C1, developed_on=True),
    Cell(("star:bytes=1000,work_us=10",), _CORES, _LINKS, _C1, developed_on=True),
    Cell(("page-load:bytes=200,work_us=30",), _CORES, "60mbit", _C1),
    Cell(("processing:bytes=200,work_us=5",), _OTHER_CORES, _LINKS, _C1),
    Cell(("advertising:bytes=100",), _CORES, "60mbit", _C1),
    Cell(("rolling-top-words",), _OTHER_CORES, "60mbit", _C1),
    Cell(("exclamation",), _CORES, _LINKS, _C1),
    Cell(("sol:bytes=2000",), _OTHER_CORES, "60mbit", _C1, developed_on=True),
    Cell(("word-count",), _OTHER_CORES, _LINKS, _C1, developed_on=True),
    Cell(("page-load:bytes=200,work_us=30",), _OTHER_CORES, _LINKS, _C1),
    Cell(("word-count", "word-count"), _CORES, "60mbit", _C1, developed_on=True),
    Cell(("word-count", "linear:bytes=100,work_us=20"), _OTHER_CORES, "60mbit", _C1, developed_on=True),
    Cell(("sol:bytes=2000", "diamond:bytes=300"), _CORES, _LINKS, _C1, developed_on=True),
    Cell(("processing:bytes=200,work_us=5", "page-load:bytes=200,work_us=30"), _CORES, "60mbit", _C1),
    Cell(("exclamation", "rolling-top-words"), _OTHER_CORES, _LINKS, _C1),
    Cell(("advertising:bytes=100", "star:bytes=1000,work_us=10"), _CORES, "60mbit", _C1),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("run", "compare", "list"))
    parser.add_argument("--only", default="", help="only cells with this in their name")
    parser.add_argument("--minutes", type=float, default=600.0, help="begin no start later than that")
    parser.add_argument("--starts", type=int, default=3, help="of Even and of what is decided; others get one")
    parser.add_argument("--unlike", action="store_true", help="the cells of unlike nodes")
    parser.add_argument("--phases", default=",".join(PHASES), help="which of them, in this order")
    parser.add_argument("--placements", default=",".join(BESIDE), help="which of those that are measured beside")
    options = parser.parse_args()
    cells = [cell for cell in (*CELLS, *UNLIKE) if options.only in cell.name and cell.is_uniform != options.unlike]
    if options.what == "list":
        for cell in cells:
            print(cell.name)
    elif options.what == "run":
        show_progress()
        RECORDS.mkdir(parents=True, exist_ok=True)
        beside = options.placements.split(",")
        run(cells, options.phases.split(","), options.starts, time.monotonic() + 60 * options.minutes, beside)
    else:
        compare()
        compare_unlike()


def run(
    cells: Sequence[Cell], phases: Sequence[str], starts: int, until_s: float, beside: Sequence[str] = BESIDE
) -> None:
    """Make the starts that are missing, phase after phase."""
    with Bench.up() as bench:
        for phase in phases:
            for cell in cells:
                if time.monotonic() < until_s:
                    for name, number, slots, of in _turns(bench, cell, phase, starts, beside):
                        if time.monotonic() < until_s:
                            _start(bench, of, name, number, slots)


def _turns(
    bench: Bench, cell: Cell, phase: str, starts: int, beside: Sequence[str]
) -> Iterator[tuple[str, int, Sequence[Sequence[tuple[int, int]]] | None, Cell]]:
    """Placements of a phase in the order in which they take turns: name, number of the start, slots, and the cell."""
    even = _start(bench, cell, EVEN, 0, None)
    if phase == "nodes":
        if len(cell.topologies) == 1:
            slow = _limited(cell, even)
            known = known_problem(slow, [_start(bench, slow, EVEN, 0, None)])
            slots = make_scheduler("optimizer", {"objective": "nodes"}).schedule(known).slot_of_executor
            yield "nodes", 0, _stored_slots(known, slots), slow
        return
    placements = _placements(cell, even)
    if phase == "first":
        # Where nothing moves there is nothing to compare: two starts tell how far they differ.
        most = starts if DECIDED in placements else min(starts, _UNMOVED_STARTS)
        turns = [(name, number) for number in range(most) for name in (EVEN, DECIDED)]
    elif phase == "beside":
        turns = [(name, 0) for name in beside]
    else:
        yield from _next_turns(cell, starts)
        return
    for name, number in turns:
        if name in placements:
            yield name, number, placements[name], cell


def _next_turns(cell: Cell, starts: int) -> Iterator[tuple[str, int, Sequence[Sequence[tuple[int, int]]] | None, Cell]]:
    """Further decisions, each from the best placement so far and by all records; a worse one is not tried again."""
    for name in NEXT:
        there = read_starts(cell)
        best = max((each for each in there if each in OURS), key=lambda each: _rate(there[each]))
        known = known_problem(cell, [there[best][0], *(s for e, of in there.items() for s in of if e in OURS)])
        slots = decided_slots(known)
        wanted = _stored_slots(known, slots)
        tried = [start["slots"] for of in there.values() for start in of]
        if np.array_equal(slots, known.current_slot) or _as_json(wanted) in tried:
            return
        for number in range(starts):
            yield name, number, wanted, cell
            yield best, len(there[best]) + number, there[best][0]["slots"], cell


def _rate(starts: Sequence[Mapping[str, Any]]) -> float:
    return geometric_mean([geometric_mean(start["tps"]) for start in starts])


def _as_json(slots: Sequence[Sequence[tuple[int, int]]]) -> list[list[list[int]]]:
    return [[list(slot) for slot in each] for each in slots]


def _limited(cell: Cell, even: Mapping[str, Any]) -> Cell:
    """The cell with spouts that begin a part of the rate that Even came to."""
    (topology,), (tps,) = cell.topologies, even["tps"]
    rate = f"rate={LIMITED * tps:.0f}"
    return replace(cell, topologies=(f"{topology}{',' if ':' in topology else ':'}{rate}",), limited=True)


def _start(bench: Bench, cell: Cell, name: str, number: int, slots: Any) -> dict[str, Any]:
    def make() -> dict[str, Any]:
        log.info("%s, %s, start %d", cell.name, name, number + 1)
        return bench.start(cell, slots, WARM_UP_S, MEASURE_S)

    return stored(_file(cell, name, number), make)


def _file(cell: Cell, name: str, number: int) -> Path:
    return RECORDS / f"{cell.name}.{name}.{number}.json.gz"


def known_problem(cell: Cell, starts: Sequence[Mapping[str, Any]]) -> Problem:
    """What a service knows after starts: what ran in the first of them, its load, and costs fitted to all records."""
    first, *others = starts
    problem = with_load(problem_from_dict(first["problem"]), first["records"], cell.cores, cell.link, following=True)
    nodes = (
        replace(each, resources={**each.resources, CPU: 100 * each.cpu_hz / problem.core_hz})
        for each in problem.supervisors
    )
    problem = replace(problem, supervisors=tuple(nodes))
    if others and problem.load:
        known = Evidence()
        for start in starts:
            windows = Windows()
            windows.add(_renamed(start, problem))
            learn(known, windows.closed(all_of_them=True))
        problem = problem.with_load(replace(problem.load, costs=costs_to_dict(calibrated(known))))
    return problem


def _renamed(start: Mapping[str, Any], problem: Problem) -> Iterator[dict[str, Any]]:
    """Records of a start as if its topologies and nodes had the ids that they have in `problem`."""
    own = problem_from_dict(start["problem"])
    topologies = {old.id: new.id for old, new in zip(own.topologies, problem.topologies, strict=True)}
    by_host = {node.host: node.id for node in problem.supervisors}
    nodes = {node.id: by_host.get(node.host, node.id) for node in own.supervisors}
    for record in start["records"]:
        worker = record["worker"]
        named = {"topology": topologies[worker["topology"]], "supervisor": nodes[worker["supervisor"]]}
        yield {**record, "worker": {**worker, **named}}


def read_starts(cell: Cell) -> dict[str, list[dict[str, Any]]]:
    """All starts of a cell that are stored, by placement."""
    found: dict[str, list[dict[str, Any]]] = {}
    for file in sorted(RECORDS.glob(f"{cell.name}.*.json.gz")):
        name = file.name.removeprefix(f"{cell.name}.").split(".")[0]
        found.setdefault(name, []).append(stored(file, dict))
    return found


def decided_slots(problem: Problem) -> IntArray:
    """Where a service with the objective throughput would have everything, by its first decision."""
    decision = decide(
        problem,
        make_scheduler("optimizer", {"objective": THROUGHPUT}),
        TriggerParams(period_s=0, cool_down_s=0, min_gain_percent=least_gain_percent(THROUGHPUT)),
        MoveBudget(max_topologies=len(problem.topologies), max_executors=problem.num_executors),
        DecisionTimes(1e6, 0, 0),
        aim=PlacementAim(THROUGHPUT),
    )
    return planned_slots(problem, decision.moves)


def _placements(cell: Cell, even: Mapping[str, Any]) -> dict[str, list[list[tuple[int, int]]] | None]:
    """Placements by name, each different one once; Even is None."""
    problem = known_problem(cell, [even])
    found: dict[str, IntArray] = {EVEN: problem.current_slot, DECIDED: decided_slots(problem)}
    for name in ("online", "r_storm", *([] if cell.is_uniform else ["top_storm"])):
        found[name] = make_scheduler(name).schedule(problem).slot_of_executor
    nodes = np.argsort(-problem.node_cpu_hz, kind="stable")
    if not cell.is_uniform:
        found |= {"proportional": in_proportion(problem, nodes), "strongest": in_proportion(problem, nodes[:-1])}
    if len(cell.topologies) == 1:
        first = int(np.flatnonzero(problem.slot_node == nodes[0])[0])
        found[ONE] = np.full(problem.num_executors, first, np.int32)
    different: dict[tuple[int, ...], str] = {}
    for name, slots in found.items():
        if np.all(slots >= 0):
            different.setdefault(tuple(slots.tolist()), name)
    placements = {name: _stored_slots(problem, found[name]) for name in different.values() if name != EVEN}
    # What was started goes on, whatever would be decided by now.
    started = {name: of[0]["slots"] for name, of in read_starts(cell).items() if name in (DECIDED, *BESIDE)}
    return {EVEN: None, **placements, **started}


def in_proportion(problem: Problem, nodes: IndexArray) -> IntArray:
    """Return a placement by hand: executors of each component in proportion to the cores of nodes, a worker on each."""
    slots = np.empty(problem.num_executors, np.int32)
    shares = problem.node_cpu_hz[nodes] / problem.node_cpu_hz[nodes].sum()
    for number, topology in enumerate(problem.topologies):
        own = problem.executors_of(number)
        ports = [int(np.flatnonzero(problem.slot_node == node)[number]) for node in nodes]
        placed = np.zeros(len(nodes))
        for executor, _ in sorted(enumerate(topology.executor_component.tolist()), key=lambda each: (each[1], each[0])):
            node = int(np.argmax(shares * (placed.sum() + 1) - placed))
            placed[node] += 1
            slots[own][executor] = ports[node]
    return slots


def _stored_slots(problem: Problem, slots: IntArray) -> list[list[tuple[int, int]]]:
    return [slots_of(problem, slots[problem.executors_of(n)]) for n in range(len(problem.topologies))]


class CellResult:
    """What came of one cell: starts by placement, what was promised, and how rates compare."""

    def __init__(self, cell: Cell) -> None:
        self.cell, self.starts = cell, read_starts(cell)
        self.problem = known_problem(cell, self.starts[EVEN][:1])
        self._now = self._predicted(self.problem.current_slot)

    @property
    def moved(self) -> bool:
        """Whether the first decision was to move anything."""
        return DECIDED in self.starts

    def promised(self, name: str) -> RateGain:
        """What is predicted of a placement beside Even."""
        new = self._predicted(self._slots(name))
        gains = [rate_gain(*pair) for pair in zip(self._now.topologies, new.topologies, strict=True)]
        return together(gains, [1.0] * len(gains))

    def compared(self, name: str, to: str = EVEN) -> StartComparison:
        """The geometric mean of topologies' rates under a placement by that under another one."""
        rates = [[geometric_mean(start["tps"]) for start in self.starts[each]] for each in (to, name)]
        return compare_starts(*rates)

    def cpu_us(self, name: str) -> tuple[float, float]:
        """CPU of nodes for a tree, in µs: as predicted from Even's first start, and as measured; of one topology."""
        new = self._predicted(self._slots(name))
        (topology,) = new.topologies
        used = [sum(n["cores"] for n in s["machine"]["nodes"].values()) / sum(s["tps"]) for s in self.starts[name]]
        rate = topology.reachable_tps.value
        slots = self._slots(name)
        workers = len(set(slots.tolist()))
        nodes = len(set(self.problem.slot_node[slots].tolist()))
        costs = Assumptions.of(self.problem).costs
        base = workers * costs.worker_cores + nodes * costs.polling_cores
        return topology.cpu_us + 1e6 * base / rate, 1e6 * float(np.mean(used))

    def _slots(self, name: str) -> IntArray:
        stored_slots = self.starts[name][0]["slots"]
        return np.concatenate([slot_numbers(self.problem, [(n, p) for n, p in each]) for each in stored_slots])

    def _predicted(self, slots: IntArray) -> Prediction:
        return predict(self.problem, slots)

    @property
    def final(self) -> str:
        """The placement of ours that a service ends with: the best that it had."""
        return max((name for name in OURS if name in self.starts), key=lambda name: _rate(self.starts[name]))


def measured_cells(cells: Sequence[Cell]) -> tuple[list[CellResult], list[CellResult]]:
    """Cells that have starts of Even: of lone topologies, and of several together."""
    results = [CellResult(cell) for cell in cells if _file(cell, EVEN, 0).exists()]
    results = [one for one in results if len(one.starts[EVEN]) > 1]
    alone = [one for one in results if len(one.cell.topologies) == 1]
    return alone, [one for one in results if one not in alone]


def compare_unlike() -> None:
    """The cells of unlike nodes."""
    alone, more = measured_cells(UNLIKE)
    results = [*alone, *more]
    if not results:
        return
    rows = [*_decision_rows("alone", alone, "≥ 1.4"), *_decision_rows("together", more, "≥ 2.2")]
    if moved := [one for one in results if one.moved]:
        rows += _promise_rows(moved)
    rows += [*_final_rows("alone", alone, "≥ 1.5"), *_final_rows("together", more, "")]
    rows += [_floor_row(results), *(_cell_row(one) for one in results)]
    title = "First decisions on nodes of unlike CPU and links, on a real cluster"
    write_results("storm-decisions-unlike", title, rows, {"cells": [_details(one) for one in results]})


def compare() -> None:
    """The cells of nodes that are alike."""
    alone, more = measured_cells(CELLS)
    results = [*alone, *more]
    rows = [*_decision_rows("alone", alone, "≥ 1.15"), *_decision_rows("together", more, "≥ 1.6")]
    moved = [one for one in results if one.moved]
    if moved:
        rows += _promise_rows(moved)
    rows += [*_final_rows("alone", alone, "≥ 1.25"), *_final_rows("together", more, "≥ 1.7"), *_node_rows(alone)]
    rows += [*_cpu_rows(alone), _floor_row(results), *(_cell_row(one) for one in results)]
    details = {"cells": [_details(one) for one in results]}
    write_results(
        "storm-decisions", "First decisions on a real cluster: what was promised and what came", rows, details
    )


def _decision_rows(kind: str, results: Sequence[CellResult], asked: str) -> list[tuple[str, str, str]]:
    if not results:
        return [(f"first decision / Even, geometric mean, {kind}", asked, "not measured")]
    found = {one.cell.name: one.compared(DECIDED) for one in results if one.moved}
    ratios = [found[one.cell.name].ratio if one.moved else 1.0 for one in results]
    worse = [name for name, each in found.items() if each.high < NOT_BELOW]
    verdicts = [each.verdict for each in found.values()]
    counts = ", ".join(f"{verdicts.count(verdict)} {verdict}" for verdict in ("better", "worse", "undecided"))
    return [
        (
            f"first decision / Even, geometric mean, {kind}",
            asked,
            f"{geometric_mean(ratios):.2f} of {len(results)} cells; moved {len(found)}: {counts}",
        ),
        (f"cells decided worse than {NOT_BELOW}, {kind}", "0", f"{len(worse)}{': ' * bool(worse)}{', '.join(worse)}"),
    ]


def _final_rows(kind: str, results: Sequence[CellResult], asked: str) -> list[tuple[str, str, str]]:
    if not results:
        return [(f"after up to three decisions / Even, geometric mean, {kind}", asked, "not measured")]
    ratios = [1.0 if one.final == EVEN else one.compared(one.final).ratio for one in results]
    below = []
    for one in results:
        others = [name for name in (EVEN, *BESIDE) if name in one.starts and name != one.final]
        ahead = [name for name in others if one.compared(one.final, to=name).high < NOT_BELOW]
        below += [f"{one.cell.name} ({name})" for name in ahead]
    shown = f"{geometric_mean(ratios):.2f} of {len(results)} cells, least {min(ratios):.2f}"
    beside = sum(any(name in one.starts for name in BESIDE) for one in results)
    return [
        (f"after up to three decisions / Even, geometric mean, {kind}", asked, shown),
        (
            f"cells below {NOT_BELOW} of the best of all, decided, {kind}",
            "0",
            f"{len(below)} of {beside} {', '.join(below)}".rstrip(),
        ),
    ]


def _node_rows(alone: Sequence[CellResult]) -> list[tuple[str, str, str]]:
    held, used = [], []
    for one in alone:
        slow = _limited(one.cell, one.starts[EVEN][0])
        there = read_starts(slow)
        if "nodes" in there:
            (topology,) = slow.topologies
            wanted = float(topology.rpartition("rate=")[2])
            held.append(there["nodes"][0]["tps"][0] / wanted)
            nodes = [len({node for each in there[name][0]["slots"] for node, _ in each}) for name in ("nodes", EVEN)]
            used.append(nodes[0] / nodes[1])
    if not held:
        return [(f"objective nodes at {LIMITED:.0%} of Even's rate", f"rate ≥ {HELD}, nodes ≤ 0.5", "not measured")]
    return [
        (f"objective nodes at {LIMITED:.0%} of Even's rate: rate held, least", f"≥ {HELD}", f"{min(held):.2f}"),
        ("objective nodes: nodes / Even's, median", "≤ 0.5", f"{median(used):.2f} of {len(used)} cells"),
    ]


def _promise_rows(moved: Sequence[CellResult]) -> list[tuple[str, str, str]]:
    errors, inside = [], 0
    for one in moved:
        promised, found = one.promised(DECIDED), one.compared(DECIDED)
        errors.append(abs(promised.value / found.ratio - 1))
        inside += promised.low <= found.ratio <= promised.high
    return [
        ("promised / measured gain, error", "median ≤ 8 %", f"median {median(errors):.1%}, worst {max(errors):.1%}"),
        ("measured gain inside the promised interval", "≥ 90 %", f"{inside} of {len(moved)}"),
    ]


def _cpu_rows(alone: Sequence[CellResult]) -> list[tuple[str, str, str]]:
    rows = []
    for kind, name in (("spread (Even)", EVEN), ("local (one worker)", ONE)):
        pairs = [one.cpu_us(name) for one in alone if name in one.starts]
        if pairs:
            errors = [abs(predicted / found - 1) for predicted, found in pairs]
            found = f"median {median(errors):.1%}, worst {max(errors):.1%}, {len(pairs)} topologies"
            rows.append((f"CPU of a tree, {kind}, predicted from Even", "within 10 %", found))
    return rows


def _floor_row(results: Sequence[CellResult]) -> tuple[str, str, str]:
    apart = [
        abs(np.log(geometric_mean(a["tps"]) / geometric_mean(b["tps"])))
        for one in results
        for starts in one.starts.values()
        for number, a in enumerate(starts)
        for b in starts[number + 1 :]
    ]
    shown = f"median {median(apart):.1%}, p95 {np.quantile(apart, 0.95):.1%}, {len(apart)} pairs"
    return "two starts of the same placement", "", shown


def _cell_row(one: CellResult) -> tuple[str, str, str]:
    name = f"{one.cell.name}{'' if one.cell.developed_on else ' (not looked at)'}"
    even = f"Even {np.mean([sum(start['tps']) for start in one.starts[EVEN]]):,.0f} trees/s"
    others = ", ".join(f"{each} {one.compared(each).ratio:.2f}" for each in BESIDE if each in one.starts)
    if not one.moved:
        return name, "", f"{even}; not moved{'; ' * bool(others)}{others}"
    promised, found = one.promised(DECIDED), one.compared(DECIDED)
    more = f", {found.more_starts} more starts would decide" if found.more_starts else ""
    text = (
        f"{even}; promised {promised.value:.2f} ({promised.low:.2f}–{promised.high:.2f}), measured {found.ratio:.2f} "
        f"({found.low:.2f}–{found.high:.2f}), starts {found.starts[0]} and {found.starts[1]}: {found.verdict}{more}"
        f"{'; ' * bool(others)}{others}"
    )
    return name, "", text


def _details(one: CellResult) -> dict[str, Any]:
    starts = {
        name: [{key: start[key] for key in ("tps", "loop_ms", "load_average", "slots", "machine")} for start in starts]
        for name, starts in one.starts.items()
    }
    found: dict[str, Any] = {"cell": asdict(one.cell), "name": one.cell.name, "moved": one.moved, "starts": starts}
    found["beside"] = {name: one.compared(name).as_dict() for name in BESIDE if name in one.starts}
    if one.moved:
        promised = one.promised(DECIDED)
        found["promised"] = {"value": promised.value, "low": promised.low, "high": promised.high}
        found["measured"] = one.compared(DECIDED).as_dict()
    return found


if __name__ == "__main__":
    main()
