"""Why executors of a topology are where they are, or have no slot."""

from __future__ import annotations

import numpy as np

from stormwright.errors import NotThereError
from stormwright.model.arrays import IntArray
from stormwright.service.operating.why import explained
from stormwright.service.pages.seen.known import Known
from stormwright.service.pages.views.page import Page, Query, waiting


def why(known: Known, name: str, query: Query) -> Page:
    """Of one executor; by default of all without a slot, or where there are none of the busiest."""
    scene, here = known.scene(), "/topologies"
    if scene is None:
        return waiting(here, "Topologies", known.error, known.sources.status is not None)
    index = scene.problem.topology_index.get(name)
    if index is None:
        raise NotThereError(f"no topology {name} runs: it may have ended")
    of, unplaced = scene.problem.topologies[index], scene.unplaced.get(name, 0)
    told = query.get("executor", "")
    executor = int(told) if told.isascii() and told.isdigit() and len(told) < 10 else None
    if executor is None and not unplaced and of.num_executors:
        executor = int(np.argmax(scene.problem.executor_cpu_hz[scene.problem.executors_of(index)]))
    shows = {
        "topology": of,
        "unplaced": unplaced,
        "executor": executor,
        "explained": explained(scene.problem, name, executor),
        "components": [component.id for component in of.components],
        "ranges": _ranges(of.executor_component),
    }
    command = f"stormwright explain problem.json --topology {name}"
    if executor is not None:
        command += f" --executor {executor}"
    return Page("why", f"Why {of.name} is where it is", command, shows, here)


def _ranges(component: IntArray) -> list[tuple[int, int, int]]:
    """First and last executor and component, where executors of a component follow each other."""
    if not len(component):
        return []
    starts = [0, *(np.flatnonzero(np.diff(component)) + 1).tolist()]
    ends = [*starts[1:], len(component)]
    return [(start, end - 1, int(component[start])) for start, end in zip(starts, ends, strict=True)]
