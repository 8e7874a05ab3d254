"""Cost documents (`stormwright-calibration/1`): written by a calibration, read by predictions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from stormwright.errors import Fault, InputError
from stormwright.formats import read_json
from stormwright.formats.document.documents import COSTS_SCHEMA, CorrectionDocument, CostsDocument
from stormwright.formats.document.faults import FaultList, require_schema
from stormwright.model import UNPLACED, Problem
from stormwright.predict.costs import Correction, CostRange, Costs, FitRange, InputWork
from stormwright.predict.workers import nodes_of

if TYPE_CHECKING:
    from stormwright.predict.calibration.calibration import Calibration

_NAMES = tuple(each.name for each in fields(Costs) if each.name != "fitted_in")


class StoredCosts(NamedTuple):
    """Costs of a cluster, and corrections by topology id."""

    costs: Costs
    corrections: Mapping[str, Correction]


def costs_to_dict(calibration: Calibration) -> dict[str, Any]:
    """Return a calibration as a document of plain Python values."""
    costs, fitted = calibration.costs, calibration.costs.fitted_in
    document: dict[str, Any] = {
        "schema": COSTS_SCHEMA,
        "costs": {name: getattr(costs, name) for name in _NAMES},
        "corrections": {name: one.as_dict() for name, one in calibration.corrections.items()},
        "intervals": {name: [one.low, one.high] for name, one in calibration.figures.items()},
        "learned": {name: one.learned for name, one in calibration.figures.items()},
        "speeds": dict(calibration.speeds),
        "minutes": calibration.minutes,
        "workers": calibration.workers,
    }
    if calibration.reference_hz is not None:
        document["reference_hz"] = calibration.reference_hz
    if fitted is not None:
        document["fitted_in"] = {
            "node_utilisation": [fitted.node_utilisation.least, fitted.node_utilisation.most],
            "rate_tps": {name: [rate.least, rate.most] for name, rate in fitted.rate_tps.items()},
        }
    return document


def read_costs(path: Path) -> StoredCosts:
    """Read the costs in the file at `path`, gzipped or not.

    Raises
    ------
    InputError
        The file cannot be read, or is not a cost document; all its faults.
    """
    return costs_from_dict(read_json(path), str(path))


def stored_costs(given: str | Path | Mapping[str, Any] | StoredCosts) -> StoredCosts:
    """Return costs that are given as a file, as a document, or as they are.

    Raises
    ------
    InputError
        They are no costs; all their faults.
    """
    if isinstance(given, StoredCosts):
        return given
    return read_costs(Path(given)) if isinstance(given, (str, Path)) else costs_from_dict(given)


def costs_of(problem: Problem) -> StoredCosts:
    """Return the costs that come with a problem's load, or the default costs.

    Raises
    ------
    InputError
        The costs of the load are invalid.
    """
    stored = problem.load.costs if problem.load else {}
    costs, corrections = costs_from_dict(dict(stored), "costs of the problem") if stored else StoredCosts(Costs(), {})
    return StoredCosts(_fitting_measured_nodes(problem, costs), corrections)


def _fitting_measured_nodes(problem: Problem, costs: Costs) -> Costs:
    """Return costs whose base CPU fits on every measured node beside the CPU of its executors without polls.

    Costs that were fitted to young workers, or on larger nodes, may be too high for that.
    """
    load, slots = problem.load, problem.measured_slot
    on = slots != UNPLACED
    if load is None or not load.node_cpu_hz or not on.any():
        return costs
    nodes, count = nodes_of(problem), len(problem.supervisors)
    workers = np.bincount(problem.slot_node[np.unique(slots[on])], minlength=count)
    base = workers * costs.worker_cores + (workers > 0) * costs.polling_cores
    runs = np.concatenate(
        [np.zeros(len(each.cpu_hz)) if each.runs_per_s is None else each.runs_per_s for each in problem.loads]
    )
    work_hz = np.maximum(problem.executor_cpu_hz - 1e-6 * costs.poll_us * runs * problem.core_hz, 0.0)
    work = np.bincount(problem.slot_node[slots[on]], work_hz[on], count) / nodes.core_hz
    measured = np.array([node.id in load.node_cpu_hz for node in problem.supervisors]) & (base > 0)
    room = (nodes.cores - nodes.overhead_cores - work)[measured]
    part = float(np.clip(room / base[measured], 0.0, 1.0).min(initial=1.0))
    return replace(costs, worker_cores=part * costs.worker_cores, spin_share=part * costs.spin_share)


def costs_from_dict(document: object, source: str = "costs") -> StoredCosts:
    """Return the costs of `document` (parsed JSON); `source` names it in errors.

    Raises
    ------
    InputError
        It is not a cost document; all its faults.
    """
    require_schema(document, source, COSTS_SCHEMA)
    faults = FaultList()
    parsed = faults.parse(CostsDocument, document, "$")
    if parsed is None:
        raise faults.error(source)
    unknown = [name for name in parsed.costs if name not in _NAMES]
    if unknown:
        there = ", ".join(_NAMES)
        raise InputError(source, [Fault(f"no such cost; there are {there}", f"$.costs.{name}") for name in unknown])
    fitted_in = None
    if (fitted := parsed.fitted_in) is not None:
        rates = {name: CostRange(*rate) for name, rate in fitted.rate_tps.items()}
        fitted_in = FitRange(CostRange(*fitted.node_utilisation), rates)
    try:
        costs = Costs(**parsed.costs, fitted_in=fitted_in)
    except InputError as error:
        raise InputError(source, [Fault(f.message, f"$.costs.{f.path}") for f in error.faults]) from error
    return StoredCosts(costs, {name: _correction(one) for name, one in parsed.corrections.items()})


def _correction(parsed: CorrectionDocument) -> Correction:
    inputs = {
        component: tuple(InputWork(one.source, one.stream, one.us, one.part, one.identified) for one in work)
        for component, work in parsed.inputs.items()
    }
    return Correction(parsed.work, parsed.messages, parsed.error, inputs, parsed.scale, tuple_us=parsed.tuple_us)
