"""Loads from Storm's UI without probes: ``GET /api/v1/topology/ID?window=600``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from pathlib import Path
from typing import Any, cast

import numpy as np

from stormwright.errors import Fault, InputError, suggestion_for
from stormwright.formats import read_json
from stormwright.model import LoadProfile, Problem, Topology
from stormwright.model.load import StreamRate, silent_load, with_streams
from stormwright.model.peculiarities import waiting_threads
from stormwright.predict.calibration.document import stored_costs

#: Minimum time in seconds that a topology has to be up within the window.
_MIN_S = 30.0


@dataclass(frozen=True)
class UiComponent:
    """UI statistics of a component, per second of the window: emitted and executed tuples, busy threads."""

    emitted_tps: float
    executed_tps: float
    busy_threads: float


@dataclass(frozen=True)
class UiTopology:
    """UI statistics of a topology: its index in the problem, and its components by name."""

    topology: int
    components: Mapping[str, UiComponent]


def read_ui(document: object, problem: Problem, source: str) -> UiTopology:
    """Parse a response of the UI.

    Parameters
    ----------
    document
        The response, as JSON.
    problem
        Problem with the topology.
    source
        Origin of the response, for faults.

    Raises
    ------
    InputError
        It is no such response, is of a topology that the problem does not have, or the window is too short; all faults.
    """
    if not isinstance(document, Mapping) or not isinstance(document.get("bolts"), list):
        message = "should be what Storm's UI answers to GET /api/v1/topology/ID?window=600"
        raise InputError(source, [Fault(message, "$")])
    faults: list[Fault] = []
    index = _topology_of(document, problem, source)
    seconds = _number(document, "uptimeSeconds", "$", faults)
    window = document.get("window")
    if window != ":all-time":
        seconds = min(seconds, _number(document, "window", "$", faults))
    if not faults and seconds < _MIN_S:
        faults.append(Fault(f"only {seconds:g} s are measured; wait until there are {_MIN_S:g}", "$.window"))
    topology = problem.topologies[index]
    # With sys=1 system components are listed, and their streams are in the numbers of the others.
    listed = [each.get("boltId") for each in document["bolts"] if isinstance(each, Mapping)]
    with_system = any(str(each).startswith("__") for each in listed)
    components = {}
    for kind, key in (("spouts", "spoutId"), ("bolts", "boltId")):
        for number, one in enumerate(document.get(kind) or []):
            at = f"$.{kind}[{number}]"
            if isinstance(one, Mapping) and str(one.get(key)).startswith("__"):
                continue
            if not isinstance(one, Mapping) or one.get(key) not in topology.component_index:
                faults.append(Fault(f"should be a component of {topology.name}", f"{at}.{key}"))
                continue
            emitted = _number(one, "emitted", at, faults)
            if with_system:  # about one for the acker with each tree, and with each anchored tuple that a bolt ends
                ended = _number(one, "acked", at, faults) + _number(one, "failed", at, faults)
                emitted = emitted - ended if emitted >= ended else emitted
            executed = _number(one, "executed", at, faults) if kind == "bolts" else 0.0
            latency_ms = _number(one, "executeLatency", at, faults) if kind == "bolts" else 0.0
            scale = 1 / max(seconds, _MIN_S)
            components[str(one[key])] = UiComponent(
                emitted * scale, executed * scale, executed * latency_ms / 1000 * scale
            )
    if faults:
        raise InputError(source, faults)
    return UiTopology(index, components)


def _topology_of(document: Mapping[str, Any], problem: Problem, source: str) -> int:
    """Return the index of a response's topology: by its id, or by its name, as of one that was imported.

    Raises
    ------
    InputError
        There is none in the problem, or several of that name.
    """
    own_id, name = str(document.get("id", "")), document.get("name")
    if own_id in problem.topology_index:
        return problem.topology_index[own_id]
    alike = [index for index, each in enumerate(problem.topologies) if each.name == name]
    if len(alike) == 1:
        return alike[0]
    if alike:
        message = f"{len(alike)} topologies of the problem are called {name}, and none has the id {own_id}"
    else:
        message = f"no such topology in the problem: {own_id}{suggestion_for(own_id, problem.topology_index)}"
    raise InputError(source, [Fault(message, "$.id")])


def _number(document: Mapping[str, Any], key: str, at: str, faults: list[Fault]) -> float:
    """Return a number, which the UI sometimes writes as text."""
    try:
        value = float(document.get(key) or 0)
    except (TypeError, ValueError):
        value = -1.0
    if not isfinite(value) or value < 0:
        faults.append(Fault(f"should be a number from 0 on, got {document.get(key)}", f"{at}.{key}"))
        return 0.0
    return value


def held_cores(statistics: UiTopology, problem: Problem) -> dict[tuple[int, int], float]:
    """Return busy threads by topology and component (indices), whether computing or waiting."""
    index = problem.topologies[statistics.topology].component_index
    return {
        (statistics.topology, index[name]): one.busy_threads
        for name, one in statistics.components.items()
        if one.busy_threads
    }


def waiting_cores(problem: Problem) -> dict[tuple[int, int], float]:
    """Return the same of components that wait for something else than CPU, as probes have measured them."""
    held: dict[tuple[int, int], float] = {}
    for number, (topology, load) in enumerate(zip(problem.topologies, problem.loads, strict=True)):
        waiting = waiting_threads(problem, number)
        computing = np.bincount(topology.executor_component, load.cpu_hz, len(waiting)) / problem.core_hz
        for component in np.flatnonzero(waiting).tolist():
            held[number, component] = float(waiting[component] + computing[component])
    return held


def with_ui(problem: Problem, statistics: UiTopology) -> Problem:
    """Return the problem with a load from UI statistics; loads measured by probes are not replaced.

    The execution time of a bolt is taken as its CPU. Tuples executed by a bolt with several sources are attributed to
    them in proportion to their output. Executors of a component are assumed to get equal loads. The UI reports no
    execution time of spouts and ackers, so their CPU counts as 0.
    """
    topology = problem.topologies[statistics.topology]
    measured = problem.load.topologies if problem.load else {}
    if topology.id in measured:
        return problem
    busy = np.array([_of(statistics, component.id).busy_threads for component in topology.components])
    sizes = np.bincount(topology.executor_component, minlength=len(busy))
    load = silent_load(topology, problem.core_hz, problem.conf)
    cpu_hz = (busy / np.maximum(sizes, 1))[topology.executor_component] * problem.core_hz
    load = with_streams(replace(load, cpu_hz=cpu_hz), topology, _streams(topology, statistics))
    return problem.with_load(replace(problem.load or LoadProfile({}), topologies={**measured, topology.id: load}))


def _of(statistics: UiTopology, component: str) -> UiComponent:
    return statistics.components.get(component, UiComponent(0.0, 0.0, 0.0))


def _streams(topology: Topology, statistics: UiTopology) -> Iterator[StreamRate]:
    """Yield stream rates in the order of targets and their inputs."""
    sizes = list(topology.executor_counts.values())
    for target, component in enumerate(topology.components):
        inputs = [each for each in component.inputs if each.source in topology.component_index]
        emitted = [_of(statistics, each.source).emitted_tps for each in inputs]
        for each, from_source in zip(inputs, emitted, strict=True):
            source = topology.component_index[each.source]
            if from_source > 0 and sizes[source] > 0:
                executed_tps = from_source / sum(emitted) * _of(statistics, component.id).executed_tps
                # What each executor of the target gets of all is executed by each.
                copies = max(sizes[target], 1) if each.kind == "all" else 1
                yield StreamRate(source, target, each.kind, executed_tps / sizes[source] / copies)


def with_measured(
    problem: Problem,
    ui: Sequence[Path | Mapping[str, Any]] = (),
    costs: str | Path | Mapping[str, Any] | None = None,
) -> tuple[Problem, dict[tuple[int, int], float]]:
    """Return the problem with loads from the UI and with costs, and the number of busy threads by component.

    Of components that probes have measured only if they wait for something else than CPU.

    Parameters
    ----------
    problem
        Problem with running topologies.
    ui
        Responses of the UI, or files with them.
    costs
        Costs of messages and workers, or a file with them; by default those of the problem's load.

    Raises
    ------
    InputError
        A file cannot be read, or something else is in it; all its faults.
    """
    held = waiting_cores(problem)
    for number, each in enumerate(ui):
        document, source = (each, f"response {number}") if isinstance(each, Mapping) else (read_json(each), str(each))
        measured = read_ui(document, problem, source)
        problem = with_ui(problem, measured)
        held |= held_cores(measured, problem)
    if costs is not None:
        stored_costs(costs)  # raises if it is invalid
        content = dict(costs) if isinstance(costs, Mapping) else cast("dict[str, Any]", read_json(Path(costs)))
        problem = problem.with_load(replace(problem.load or LoadProfile({}), costs=content))
    return problem, held
