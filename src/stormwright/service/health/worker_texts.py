"""Faults of workers as sentences: a node instead of its workers, all workers instead of the nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import NamedTuple

from stormwright.model.humanize import counted, listed
from stormwright.service.health.workers import FailingTrees, WorkerFault, WorkerFaults


class WorkerText(NamedTuple):
    """A sentence about workers: whether they do not work at all, their topology and node (both may be empty)."""

    text: str
    is_bad: bool = False
    topology: str = ""
    supervisor: str = ""


#: Number of things of a kind that are named.
NAMED = 3


def worker_texts(
    faults: WorkerFaults, names: Mapping[str, str], node: Callable[[str], str], supervisors: Mapping[str, str]
) -> Iterator[WorkerText]:
    """Yield sentences about faults of workers: a node instead of its workers, and all workers instead of the nodes.

    Parameters
    ----------
    faults
        Faults of all workers at one moment.
    names
        Name of each topology (id).
    node
        Returns the display name of a node by its supervisor.
    supervisors
        The rest of a sentence about the supervisor of each node that does not report either.
    """
    yield from _crashing_texts(faults, names, node)
    if faults.all_silent:
        newest = min(each.number for each in faults.silent)
        yield WorkerText(f"No probe has reported for {newest:.0f} s: do the probes reach this service?", is_bad=True)
    elif not faults.all_late:
        yield from _silent_texts(faults, names, node, supervisors)
    if faults.starting:
        starting = sorted(faults.starting, key=lambda each: -each.number)
        shown = listed([_worker(each, names, node) for each in starting])
        have, was = ("have", "were") if len(starting) > 1 else ("has", "was")
        text = f"{shown} {have} not reported since {'they' if len(starting) > 1 else 'it'} {was} started"
        yield WorkerText(f"{text}, {starting[0].number:.0f} s ago", topology=starting[0].topology)
    if faults.all_late:
        longest = max(each.number for each in faults.late)
        missing = " or not at all" if faults.silent else ""
        yield WorkerText(f"Records of all nodes arrive {longest:.0f} s late{missing}: this service or its link is slow")
    else:
        for supervisor, workers in list(_by_node(faults.late).items())[:NAMED]:
            longest = max(each.number for each in workers)
            text = f"Records of {node(supervisor)} arrive {longest:.0f} s late: its link is slow or the node is busy"
            yield WorkerText(text, supervisor=supervisor)
    for supervisor, workers in list(_by_node(faults.slow).items())[:NAMED]:
        worst = min(workers, key=lambda each: each.number)
        text = f"{node(supervisor)} has {worst.number:.1f} cores, it had {worst.usual:.1f}"
        yield WorkerText(text, supervisor=supervisor)


def warming_texts(faults: WorkerFaults, names: Mapping[str, str]) -> Iterator[WorkerText]:
    """Yield sentences about the first topologies whose workers warm up.

    Parameters
    ----------
    faults, names
        Faults at one moment, and name of each topology (id).
    """
    of: dict[str, list[WorkerFault]] = {}
    for each in faults.warming:
        of.setdefault(each.topology, []).append(each)
    for topology, workers in list(of.items())[:NAMED]:
        youngest_s = min(each.number for each in workers)
        name, were = names.get(topology, topology), "were" if len(workers) > 1 else "was"
        text = f"{name} warms up: {counted(len(workers), 'worker')} of it {were} started {youngest_s:.0f} s ago"
        yield WorkerText(text, topology=topology)


def failing_texts(failing: Iterable[FailingTrees], names: Mapping[str, str]) -> Iterator[WorkerText]:
    """Yield sentences about the first topologies whose trees fail; `names` has the name of each topology (id)."""
    for topology, failed, ended in islice(failing, NAMED):
        name = names.get(topology, topology)
        text = (
            f"{failed:,} of {ended:,} tuple trees of {name} failed or timed out in the last minute: a bolt fails "
            "tuples, never acks them, or takes longer than topology.message.timeout.secs"
        )
        yield WorkerText(text, is_bad=2 * failed > ended, topology=topology)


def _crashing_texts(faults: WorkerFaults, names: Mapping[str, str], node: Callable[[str], str]) -> Iterator[WorkerText]:
    of: dict[str, list[WorkerFault]] = {}
    for each in faults.crashing:
        of.setdefault(each.topology, []).append(each)
    for topology, workers in list(of.items())[:NAMED]:
        lives_s, times = min(each.number for each in workers), max(each.usual for each in workers)
        name, ends = names.get(topology, topology), "ends" if len(workers) == 1 else "end"
        where = listed([f"{node(each.slot.supervisor)}:{each.slot.port}" for each in workers], NAMED)
        text = (
            f"{counted(len(workers), 'worker')} of {name} {ends} {lives_s:.0f} s after the start, {times:.0f} times by "
            f"now: worker.log says why ({where})"
        )
        yield WorkerText(text, is_bad=True, topology=topology)


def _silent_texts(
    faults: WorkerFaults, names: Mapping[str, str], node: Callable[[str], str], supervisors: Mapping[str, str]
) -> Iterator[WorkerText]:
    alone: list[WorkerFault] = []
    nodes: list[tuple[str, list[WorkerFault]]] = []
    for supervisor, workers in _by_node(faults.silent).items():
        is_node = not faults.reporting.get(supervisor) and (len(workers) > 1 or supervisor in supervisors)
        if is_node:
            nodes.append((supervisor, workers))
        else:
            alone += workers
    nodes.sort(key=lambda each: -max(worker.number for worker in each[1]))
    for supervisor, workers in nodes[:NAMED]:
        silent_s = min(each.number for each in workers)
        also = f", {supervisors[supervisor]}" if supervisor in supervisors else ""
        topologies = listed(sorted({names.get(each.topology, each.topology) for each in workers}))
        text = f"No worker of {node(supervisor)} has reported for {silent_s:.0f} s ({topologies}){also}"
        yield WorkerText(text, is_bad=True, supervisor=supervisor)
    if len(nodes) > NAMED:
        yield WorkerText(f"{counted(len(nodes) - NAMED, 'more node')} do not report", is_bad=True)
    if alone:
        alone.sort(key=lambda each: -each.number)
        shown = listed([_worker(each, names, node) for each in alone])
        have = "have" if len(alone) > 1 else "has"
        yield WorkerText(f"{shown} {have} not reported for {alone[0].number:.0f} s", topology=alone[0].topology)


def _worker(fault: WorkerFault, names: Mapping[str, str], node: Callable[[str], str]) -> str:
    return f"Worker {names.get(fault.topology, fault.topology)} on {node(fault.slot.supervisor)}:{fault.slot.port}"


def _by_node(faults: Iterable[WorkerFault]) -> dict[str, list[WorkerFault]]:
    found: dict[str, list[WorkerFault]] = {}
    for each in faults:
        found.setdefault(each.slot.supervisor, []).append(each)
    return found
