"""High-level API for interactive use and notebooks: `import stormwright as sw`.

Longer than other modules: half of it are the docstrings of its functions, which people read at a prompt.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self, TypeAlias, cast

import numpy as np

from stormwright.base.tables import Tabular
from stormwright.defaults import DEFAULT_SCHEDULER
from stormwright.errors import Fault, InputError, MissingDependencyError, StormwrightError, collected
from stormwright.explain.drawing import component_colours, component_legend, draw, is_small
from stormwright.explain.svg import placement_svg
from stormwright.model import UNPLACED, Assignment, Cost, Problem, cost_of, diff, violations
from stormwright.model.answer import slots_in
from stormwright.model.faults import is_integer, is_number
from stormwright.model.humanize import counted, proof_text, reach_texts
from stormwright.model.link_speed import link_bits_per_s
from stormwright.model.problem import assumed_text, require_problem, size_of
from stormwright.predict.throughput import Throughput, ThroughputPredictor
from stormwright.schedulers import Scheduler
from stormwright.schedulers.toolkit.from_scratch import apply_from_scratch, never
from stormwright.schedulers.toolkit.plugin_guard import checked
from stormwright.schedulers.toolkit.resolve import choose_schedulers, resolve_scheduler
from stormwright.schedulers.toolkit.traits import warm_up
from stormwright.workbench import comparison as comparing
from stormwright.workbench import ready_problems
from stormwright.workbench import tradeoff_curve as tradeoffs
from stormwright.workbench import what_if as changed
from stormwright.workbench.bounds import AUTO, bound_of, proven_objective
from stormwright.workbench.comparison import Comparison

if TYPE_CHECKING:
    import networkx as nx

    from stormwright.predict.calibration.document import StoredCosts
    from stormwright.workbench.simulated.simulation import Simulation
    from stormwright.workbench.sweep.parts import ProblemsInput, SchedulersInput
    from stormwright.workbench.sweep.result import SweepResult

#: Costs of messages and workers: a file that ``stormwright calibrate`` wrote, or its content.
CostsInput: TypeAlias = "str | Path | Mapping[str, Any] | StoredCosts"


class PlacedExecutor(NamedTuple):
    """An executor and where it runs; node and port are None without a slot."""

    topology: str
    component: str
    executor: int
    node: str | None
    port: int | None
    cpu_mhz: float
    memory_mb: float


@dataclass(frozen=True, eq=False, repr=False)
class Placement(Assignment, Tabular):
    """An `Assignment` together with its problem, with cost, violations and drawing; a sequence of its executors.

    Parameters
    ----------
    problem
        Problem that was placed.
    """

    problem: Problem = None  # type: ignore[assignment]  # the fields before it have defaults; `of` is how one is made

    empty_columns: ClassVar[Mapping[str, Sequence[str]]] = {"executors": PlacedExecutor._fields}

    @classmethod
    def of(cls, problem: Problem, assignment: Assignment) -> Self:
        """Return `assignment` as a placement of `problem`."""
        given = {field.name: getattr(assignment, field.name) for field in fields(Assignment)}
        return cls(**given, problem=problem)

    def __iter__(self) -> Iterator[PlacedExecutor]:
        problem = self.problem
        for number, slot in enumerate(self.slot_of_executor.tolist()):
            index = int(problem.executor_topology[number])
            topology = problem.topologies[index]
            own = number - int(problem.executor_offset[index])
            at = problem.slots[slot] if slot != UNPLACED else None
            yield PlacedExecutor(
                topology=topology.id,
                component=topology.components[topology.executor_component[own]].id,
                executor=own,
                node=at.supervisor if at else None,
                port=at.port if at else None,
                cpu_mhz=float(problem.executor_cpu_hz[number]) / 1e6,
                memory_mb=float(problem.executor_memory_mb[number]),
            )

    def __len__(self) -> int:
        return self.problem.num_executors

    def tables(self) -> dict[str, list[dict[str, Any]]]:
        """Return the executors as a table."""
        return {"executors": [each._asdict() for each in self]}

    @cached_property
    def cost(self) -> Cost:
        """Traffic by class of distance, in tuples/s, and weighted."""
        return cost_of(self.problem, self.slot_of_executor)

    @cached_property
    def throughput(self) -> Throughput | None:
        """Predicted reachable rates; None if no topology has a rate."""
        return ThroughputPredictor(self.problem).predicted(self.slot_of_executor)

    @cached_property
    def broken(self) -> list[Any]:
        """Violated constraints; empty if the placement is valid."""
        return list(violations(self.problem, self.slot_of_executor))

    def summary(self) -> str:
        """Return a summary of a few lines of text."""
        return "\n".join(self._lines())

    def _lines(self) -> list[str]:
        problem, slots = self.problem, self.slot_of_executor
        placed = slots[slots != UNPLACED]
        nodes = np.unique(problem.slot_node[placed])
        cost, workers = self.cost, counted(len(np.unique(placed)), "worker")
        across = f"{cost.inter_node + cost.inter_rack:,.1f} tuples/s between nodes"
        near = f"{cost.inter_worker:,.1f} between workers of a node, {cost.same_worker:,.1f} within workers"
        used = f"{len(nodes)} of {counted(len(problem.supervisors), 'node')}"
        lines = [
            f"{self.scheduler or 'a placement'} of {problem.name or 'a problem'}: {size_of(problem)}",
            *([f"reachable: {rates.text}"] if (rates := self.throughput) else []),
            *([rates.warning] if rates and rates.warning else []),
            f"cost {cost.total:,.1f}: {across}, {near}",
            f"{counted(len(placed), 'executor')} in {workers} on {used}",
        ]
        lines += filter(None, [assumed_text(problem)])
        if predicted := self.parameters.get("predicted"):
            lines += ["predicted:", *(f"  {line}" for line in reach_texts(predicted))]
        if self.unplaced:
            lines.append(f"{counted(len(self.unplaced), 'executor')} without a slot:")
            lines += [f"  {count} of {topology}: {'; '.join(why)}" for topology, count, why in self.grouped_reasons()]
        if self.broken:
            lines.append(f"{counted(len(self.broken), 'limit')} broken:")
            lines += [f"  {violation}" for violation in self.broken]
        if np.any(problem.current_slot != UNPLACED):
            changes = diff(problem, problem.current_slot, slots)
            lines.append(
                f"{counted(len(changes.moved_executors), 'executor')} of "
                f"{counted(len(changes.topologies), 'topology')} would move"
            )
        return lines

    def __repr__(self) -> str:
        """Return the summary, for interactive use."""
        return self.summary()

    def _repr_html_(self) -> str:
        """Return the drawing for a notebook, if the placement is small enough."""
        if not is_small(self.problem):
            return f"<pre>{escape(self.summary())}</pre>"
        return f"<pre>{escape(self.summary())}</pre>{self.svg()}"

    def svg(self) -> str:
        """Return the placement as one SVG document; executors have the colour of their component."""
        colours = component_colours(self.problem)
        lead = f"cost {self.cost.total:,.1f}"
        drawing = draw(self.problem, self.scheduler, lead, self.slot_of_executor, colours)
        return placement_svg(drawing, list(component_legend(self.problem, colours)))


def read_problem(path: str | Path) -> Problem:
    """Return the problem in a file (JSON, gzipped or not, or a NumPy archive), or a built-in one: ``ready:NAME``.

    Raises
    ------
    InputError
        The file cannot be read or is not a problem; with all its faults.
    """
    return ready_problems.read_problem(Path(path))


def place(
    problem: Problem,
    scheduler: str | Scheduler = DEFAULT_SCHEDULER,
    *,
    seed: int | None = None,
    from_scratch: bool = False,
    **settings: Any,
) -> Placement:
    """Place every executor of a problem with a scheduler.

    Parameters
    ----------
    problem
        Problem from `read_problem` or `sketch`, or with a load or a placement of your own.
    scheduler
        Name from `stormwright.schedulers()`, or ``java:CLASS``; or any object with a method ``schedule(problem)``.
    seed
        Seed of schedulers with random numbers; None for their default. Like `settings`, only for a scheduler given by
        name; configure a scheduler object when you create it.
    from_scratch
        Whether to ignore the current placement, and relabel slots to minimise moves; else the scheduler gets the
        current placement, which most leave unchanged.
    **settings
        Parameters of the scheduler by name, such as ``time_budget_s=2``.

    Raises
    ------
    InputError
        The argument is no problem, the scheduler is unknown, a parameter is unknown or out of range, or a limit on
        moves is combined with `from_scratch`.
    SchedulerError
        The scheduler's answer is no assignment of the problem.
    """
    require_problem(problem)
    name = scheduler if isinstance(scheduler, str) else type(scheduler).__name__
    seed = int(seed) if isinstance(seed, np.integer) else seed
    if isinstance(scheduler, str):
        found = resolve_scheduler(scheduler, _texts(settings), seed)
    else:
        found = _own(scheduler)
        _check_unset(name, seed, settings)
    found = apply_from_scratch(name, found, from_scratch, never)
    warm_up(found)
    begin = time.perf_counter()
    answer = checked(problem, found.schedule(problem), name)
    if not answer.seconds:
        answer = replace(answer, seconds=time.perf_counter() - begin)
    return Placement.of(problem, answer)


def compare(
    problem: Problem,
    schedulers: str | Scheduler | Iterable[str | Scheduler] | Mapping[str, str | Scheduler] = "all",
    *,
    from_scratch: bool | None = None,
) -> Comparison:
    """Compare reachable rates, cost and moves of several schedulers, best first; the result prints as a table.

    Parameters
    ----------
    schedulers
        Names, several in one text separated by commas, or ``all``; scheduler objects, named after their classes; both
        together; or either by any name: ``{"mine": Mine(), "today": "even"}``.
    from_scratch
        As for `place`; None: from scratch, except schedulers set to stay near the current placement.

    Raises
    ------
    InputError
        The argument is no problem, a scheduler is unknown, or one that is set to stay near the current placement is
        combined with `from_scratch`.
    """
    require_problem(problem)
    return comparing.compare(problem, _chosen(schedulers), from_scratch)


def bound(
    problem: Problem,
    placement: Assignment | None = None,
    *,
    seconds: float = 10.0,
    objective: str = AUTO,
    headroom_percent: float = 20.0,
) -> dict[str, Any]:
    """Return a proven bound on all valid placements.

    Parameters
    ----------
    problem
        Problem with a measured or assumed load.
    placement
        A good placement to compare with the bound; by default that of `optimizer` after two seconds.
    seconds
        Time limit of the proof in seconds.
    objective
        Objective of the bound: ``traffic``, ``throughput`` or ``nodes``; ``auto`` is throughput, or traffic of a
        problem without any rates.
    headroom_percent
        Percent of all nodes and links to keep free, for nodes.

    Returns
    -------
    dict
        Its ``objective``. For traffic ``cost`` of the placement, and ``flows``, the part of the traffic that is
        shuffled, which the bound counts as free; for throughput ``factor``, by which all measured rates can grow (those
        of a topology as many times that as its weight), None if nothing limits them; for nodes ``nodes``,
        ``headroom``, and whether these sustain the measured rates (``sustained``). ``bound`` is the value that no valid
        placement exceeds (None if nothing limits the rates, or no placement sustains them), ``gap`` the difference
        relative to the placement's value (None if executors are left out or rates are not sustained), ``optimal``
        whether the placement is proven optimal, and ``text`` a summary of all of it.

    Raises
    ------
    InputError
        The argument is no problem, the placement belongs to another one, or the objective is unknown.
    """
    require_problem(problem)
    objective = proven_objective(problem, objective)
    if placement is None:
        placement = place(
            problem, DEFAULT_SCHEDULER, time_budget_s=2.0, objective=objective, headroom_percent=headroom_percent
        )
    figures = bound_of(problem, slots_in(problem, placement), objective, seconds, headroom_percent)
    return {**figures, "text": proof_text(figures)}


def tradeoff(problem: Problem, *, seconds: float = 1.0, seed: int = 0) -> tradeoffs.Tradeoff:
    """Return the gain of moving 1, 2, 5, 10 … running executors, and of restarting as many workers.

    Parameters
    ----------
    seconds
        Duration of each search.

    Raises
    ------
    InputError
        The argument is no problem, or nothing runs.
    """
    require_problem(problem)
    return tradeoffs.tradeoff(problem, seconds=seconds, seed=seed)


def what_if(
    problem: Problem,
    assignment: Assignment | None = None,
    *,
    rate: float | Mapping[str, float] = 1.0,
    add_nodes: int = 0,
    kill_nodes: str | Iterable[str] = (),
    parallelism: Mapping[str, int] | None = None,
    link: str | float | None = None,
    scheduler: str | Scheduler | None = None,
) -> changed.WhatIf:
    """Return predictions under changes, compared with today; several changes are combined.

    Parameters
    ----------
    problem
        Problem with a load measured under its current placement.
    assignment
        Alternative placement of executors.
    rate
        Factor of all rates; or factors by id or name of topologies.
    add_nodes
        Number of additional nodes like the largest.
    kill_nodes
        Nodes to remove: one or several supervisor ids or hosts.
    parallelism
        Number of executors by ``COMPONENT`` or ``TOPOLOGY/COMPONENT``. New ones go to the workers of their topology
        with fewest, all others stay.
    link
        Speed of all links: bits per second, or a text such as ``1gbit``.
    scheduler
        Scheduler, by name or object, that places everything from scratch as in `compare`; by default running executors
        stay. To start from the current placement, pass the result of `place` as `assignment`.

    Returns
    -------
    WhatIf
        Predictions ``today`` and ``then``, the ``problem`` and ``assignment`` of the latter, how many executors
        ``moved``, and topologies that ``storm rebalance -e`` changes (``rebalanced``) or that would have to be
        submitted again (``resubmitted``); it prints as text.

    Raises
    ------
    InputError
        The argument is no problem, the assignment belongs to another one, there is no change, or a change is unknown or
        out of range.
    """
    require_problem(problem)
    if assignment is not None:
        slots_in(problem, assignment)
    speed = link_bits_per_s(link) if isinstance(link, str) else link
    if speed == 0:
        raise InputError("what if", [Fault(f"should be a speed above 0 as in 1gbit or 100mbit, got {link}", "link")])
    rates = rate if isinstance(rate, Mapping) else {"": rate} if rate != 1 else {}
    wanted = {(of, name): count for key, count in (parallelism or {}).items() for of, _, name in [key.rpartition("/")]}
    changes = changed.Changes(
        rates=rates,
        add_nodes=add_nodes,
        kill_nodes=(kill_nodes,) if isinstance(kill_nodes, str) else tuple(kill_nodes),
        parallelism=wanted,
        link_bps=speed,
        assignment=assignment,
        scheduler=scheduler if scheduler is None or isinstance(scheduler, str) else _own(scheduler),
    )
    return changed.what_if(problem, changes)


def simulate(
    problem: Problem,
    assignment: Assignment | None = None,
    *,
    seconds: float = 30.0,
    seed: int = 0,
    trace: str | Path | Iterable[tuple[float, float] | tuple[float, float, str]] = (),
    tuples_at_once: int = 1,
    saturated: bool = False,
    costs: CostsInput | None = None,
) -> Simulation:
    """Simulate a placement in virtual time, tuple by tuple, like ``stormwright simulate``.

    Parameters
    ----------
    problem
        Problem with a load. Spouts emit trees at its rates, at random times; all workers are up, and all queues are
        initially empty.
    assignment
        Result of a scheduler; the current placement by default.
    seconds
        Duration in virtual seconds.
    seed
        Seed of the random numbers; the same seed gives the same result.
    trace
        How rates change: a file with lines ``SECONDS,FACTOR`` or ``SECONDS,FACTOR,TOPOLOGY``, or such tuples.
    tuples_at_once
        Maximum number of similar tuples simulated as one event: faster by that factor, with longer latencies.
    saturated
        Whether spouts emit as fast as the limit of pending trees allows, instead of at a given rate.
    costs
        Costs of messages and workers, as a file or its content; as for `predict`.

    Returns
    -------
    Simulation
        A sequence of the results of its topologies; rates, latencies, CPU and queues.

    Raises
    ------
    InputError
        The argument is no problem, the assignment belongs to another one, nothing runs and no assignment is given, a
        number is out of range or none, the trace or the costs are invalid, or a trace is given for saturated spouts.
    """
    from stormwright.predict.calibration.document import stored_costs
    from stormwright.predict.fixed_point import fixed_costs
    from stormwright.predict.flow.profile import Profile
    from stormwright.simulator.precompile import ready_simulator
    from stormwright.simulator.settings import SimulatorSettings
    from stormwright.workbench.simulated import simulation

    require_problem(problem)
    faults = []
    if not is_number(seconds) or not 0 < seconds <= simulation.MAX_SECONDS:
        faults.append(Fault(f"should be a time above 0, to {simulation.MAX_SECONDS:,.0f}, got {seconds!r}", "seconds"))
    if not is_integer(seed) or not 0 <= seed < 2**63:
        faults.append(Fault(f"should be a whole number from 0 on, got {seed!r}", "seed"))
    if not is_integer(tuples_at_once) or not 1 <= tuples_at_once <= simulation.MAX_AT_ONCE:
        message = f"should be a whole number from 1 to {simulation.MAX_AT_ONCE:,}, got {tuples_at_once!r}"
        faults.append(Fault(message, "tuples_at_once"))
    if assignment is None and np.all(problem.current_slot == UNPLACED):
        message = "the problem has no current placement: pass one, as in simulate(problem, place(problem))"
        faults.append(Fault(message, "assignment"))
    changes = []
    with collected(faults, "trace"):
        if isinstance(trace, (str, Path)):
            changes = simulation.read_trace(Path(trace), problem)
        else:
            changes = simulation.changes_of(trace, problem)
    if saturated and changes:
        faults.append(Fault("has no effect on spouts that are offered no rate: leave out saturated", "trace"))
    if faults:
        raise InputError("simulate", faults)
    slots = problem.current_slot if assignment is None else slots_in(problem, assignment)
    ready_simulator()
    assumed = fixed_costs(Profile.of(problem), None if costs is None else stored_costs(costs))
    settings = SimulatorSettings(*assumed, saturated=saturated, tuples_at_once=tuples_at_once, seed=seed)
    return simulation.simulate(problem, slots, seconds, settings, changes)


def sweep(
    spec: str | Path | None = None,
    *,
    problems: ProblemsInput = (),
    schedulers: SchedulersInput = (),
    seeds: Iterable[int] = (),
    repeats: int = 1,
    time_limit_s: float | None = None,
    simulate_s: float | None = None,
    from_scratch: bool = False,
    table: str | Path | None = None,
    retry_failed: bool = False,
    master: str | None = None,
    spark_conf: Mapping[str, str] | None = None,
) -> SweepResult:
    """Run every problem × scheduler × parameters × seed × repeat, like ``stormwright sweep``.

    Parameters
    ----------
    spec
        File of a sweep (stormwright-sweep/1), instead of the following.
    problems
        Problems, files with them, or problems by name.
    schedulers
        Names of schedulers, or for each name the values to try of its parameters: ``{"online": {"alpha": [0, 1]}}``. A
        scheduler of your own is a class, or a function, that takes the parameters (and ``seed``, with `seeds`):
        ``{"mine": Mine}``, or ``{"mine": (Mine, {"reach": [1, 2]})}``. A `table` identifies it by its source and that
        of its base classes, not by what it calls: change its name if that changes.
    seeds
        Seeds of schedulers that draw random numbers; of all if placements are simulated.
    repeats
        Number of repeats of each cell.
    time_limit_s
        Time limit of a cell; None for no limit.
    simulate_s
        Seconds of virtual time in which each placement is simulated; None for none.
    from_scratch
        Whether to ignore the current placement.
    table
        Directory, or URI with `master`, of the cells: those that it has are not decided again. None: only in memory.
    retry_failed
        Whether to decide failed cells of the table again.
    master
        Spark master, such as ``local[*]``; None: in this process, without Spark.
    spark_conf
        Configuration of Spark, with `master`.

    Returns
    -------
    SweepResult
        A sequence of summaries, best first; `to_frame` has the cells.

    Raises
    ------
    InputError
        The file or an argument is invalid; all faults at once.
    MissingDependencyError
        PyArrow, or PySpark with a master, is not installed.
    """
    _require_arrow()
    from tempfile import TemporaryDirectory

    from stormwright.pipeline.spark.location import is_uri
    from stormwright.pipeline.spark.target import SparkTarget
    from stormwright.workbench.sweep.cells import read_cells
    from stormwright.workbench.sweep.parts import SweepExtent, sweep_of_parts
    from stormwright.workbench.sweep.result import SweepResult, run_here
    from stormwright.workbench.sweep.table import LocalTable

    faults = []
    if master is None and table is not None and is_uri(str(table)):
        faults.append(Fault("is a URI, which Spark accesses: pass master, or a directory", "table"))
    if master is None and spark_conf:
        faults.append(Fault("has no effect without Spark: pass master, or leave it out", "spark_conf"))
    if spec is not None:
        named = {"problems": problems, "schedulers": schedulers, "seeds": seeds, "simulate_s": simulate_s}
        named |= {"time_limit_s": time_limit_s, "repeats": None if repeats == 1 else repeats}
        given = [name for name, value in named.items() if value not in (None, ())]
        faults += [Fault("is part of the file: leave it out, or leave out the file", name) for name in given]
    if faults:
        raise InputError("sweep", faults)
    if spec is not None:
        cells = read_cells(Path(spec), from_scratch)
    else:
        extent = SweepExtent(tuple(seeds), repeats, time_limit_s, simulate_s, from_scratch, table is not None)
        cells = sweep_of_parts(problems, schedulers, extent, in_process=master is None)
    with TemporaryDirectory(prefix="stormwright-sweep-") as scratch:
        where = scratch if table is None else str(table)
        if master is None:
            here = LocalTable(Path(where))
            decided = run_here(cells, here, retry_failed=retry_failed)
            return SweepResult(cells, here.read(), decided)
        from stormwright.workbench.sweep.run import run_on_spark

        target = SparkTarget.parsed(master, [f"{key}={value}" for key, value in (spark_conf or {}).items()])
        decided, rows = run_on_spark(cells, where, target, retry_failed=retry_failed)
        return SweepResult(cells, rows, decided)


def graph(problem: Problem, of: str = "components", assignment: Assignment | None = None) -> nx.DiGraph:
    """Return a problem as a graph of networkx.

    Parameters
    ----------
    of
        ``components``: topologies, with an edge for each stream; ``executors``: traffic in tuples/s.
    assignment
        Placement under which executors exchange tuples; by default the current one, as measured.

    Raises
    ------
    InputError
        The argument is no problem, there is no such graph, or the assignment belongs to another problem.
    MissingDependencyError
        networkx is not installed.
    """
    from stormwright.explain.graphs import component_graph, executor_graph

    require_problem(problem)
    if of not in ("components", "executors"):
        raise InputError("graph", [Fault(f"should be components or executors, got {of!r}", "of")])
    if of == "components":
        return component_graph(problem)
    return executor_graph(problem, None if assignment is None else slots_in(problem, assignment))


def _require_arrow() -> None:
    try:
        import pyarrow  # noqa: F401
    except ImportError as error:
        message = 'PyArrow is not installed, and sweeps need it; install it with: pip install "stormwright[frames]"'
        raise MissingDependencyError(message) from error


def _chosen(
    schedulers: str | Scheduler | Iterable[str | Scheduler] | Mapping[str, str | Scheduler],
) -> dict[str, Scheduler | StormwrightError]:
    """Return the schedulers to compare by name, or the error of an unavailable one."""
    if isinstance(schedulers, Mapping):
        return {name: _named(each) if isinstance(each, str) else _own(each) for name, each in schedulers.items()}
    one = isinstance(schedulers, str) or not isinstance(schedulers, Iterable)
    given = cast("list[str | Scheduler]", [schedulers] if one else list(cast("Iterable[str | Scheduler]", schedulers)))
    names, own = (
        [each for each in given if isinstance(each, str)],
        [each for each in given if not isinstance(each, str)],
    )
    found = choose_schedulers(",".join(names)) if names or not own else {}
    for each in map(_own, own):
        if (name := type(each).__name__) in found:
            message = f'two of them are called {name}: name them, as {{"one": {name}(), "other": …}}'
            raise InputError("schedulers to compare", [Fault(message, "$")])
        found[name] = each
    return found


def _named(name: str) -> Scheduler | StormwrightError:
    """Return a scheduler by name, or its error."""
    found = list(choose_schedulers(name).values())
    if len(found) > 1:
        raise InputError("schedulers to compare", [Fault("should be one scheduler under each name", name)])
    return found[0]


def _own(scheduler: Scheduler) -> Scheduler:
    """Return the scheduler if it is one."""
    if not callable(getattr(scheduler, "schedule", None)) or isinstance(scheduler, type):
        what = f"the class {scheduler.__name__}" if isinstance(scheduler, type) else type(scheduler).__name__
        message = f"should be a name, or an object with a method schedule(problem), got {what}"
        raise InputError("scheduler", [Fault(message, "$")])
    return scheduler


def _check_unset(name: str, seed: int | None, settings: Mapping[str, Any]) -> None:
    """Raise if parameters are given for a scheduler object, which would ignore them."""
    if given := [*settings, *([] if seed is None else ["seed"])]:
        message = f"would have no effect: only a scheduler by its name is set here; make the {name} with it"
        raise InputError("scheduler parameters", [Fault(message, each) for each in given])


def _texts(settings: Mapping[str, Any]) -> list[str]:
    """Return parameters as command-line texts, which Java classes accept as well."""
    return [f"{name}={str(value).lower() if isinstance(value, bool) else value}" for name, value in settings.items()]
