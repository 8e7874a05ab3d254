"""A snapshot of Nimbus: a problem document in which a faulty configuration is the fault of one topology alone."""

from __future__ import annotations

from collections.abc import Mapping

from stormwright.formats.document.faults import join_path, shown
from stormwright.formats.document.problem import problem_from_dict
from stormwright.model import Problem
from stormwright.model.conf.keys import conf_misfits


def snapshot_from_dict(document: object, source: str = "snapshot") -> tuple[Problem, dict[str, tuple[str, ...]]]:
    """The problem that `document` (parsed JSON) describes, and topology id → faults of its configuration.

    Whoever submits a topology writes its configuration: what is wrong there must not stop the others. In the problem
    such a topology is without the keys that have faults.

    Raises
    ------
    InputError
        It is not a problem for any other reason; all its faults.
    """
    raw = document.get("topologies") if isinstance(document, Mapping) else None
    if not isinstance(document, Mapping) or not isinstance(raw, list):
        return problem_from_dict(document, source), {}
    unfit: dict[str, tuple[str, ...]] = {}
    topologies = [without_misfits(topology, unfit) for topology in raw]
    return problem_from_dict({**document, "topologies": topologies}, source), unfit


def without_misfits(topology: object, unfit: dict[str, tuple[str, ...]]) -> object:
    """`topology` without keys that have faults, which are noted in `unfit`."""
    conf = topology.get("conf") if isinstance(topology, Mapping) else None
    misfits = conf_misfits(conf) if isinstance(conf, Mapping) else ()
    if not isinstance(topology, Mapping) or not isinstance(conf, Mapping) or not misfits:
        return topology
    unfit[str(topology.get("id"))] = tuple(
        f"{join_path('conf', *misfit.steps)}: {misfit.message}, got {shown(misfit.value)}" for misfit in misfits
    )
    faulty = {misfit.steps[0] for misfit in misfits}
    return {**topology, "conf": {key: value for key, value in conf.items() if key not in faulty}}
