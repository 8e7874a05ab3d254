"""Draining and uncordoning nodes."""

from __future__ import annotations

import logging
from collections.abc import Callable

import numpy as np

from stormwright.client.shapes import ChangeRequest, DrainedHost, DrainedHosts, DrainRequest, DrainResponse
from stormwright.errors import ConflictError, NotFoundError, suggestion_for
from stormwright.model import UNPLACED, Problem
from stormwright.plans.plan import Plan
from stormwright.service.plans.journal import Journal
from stormwright.service.safety.drains import DrainedNodes

log = logging.getLogger(__name__)


class NodeService:
    """Drains and uncordons nodes; safe to use from several threads.

    Parameters
    ----------
    drains, journal
        Registry of drained nodes, and journal of changes.
    now
        Returns the current problem; raises ConflictError if it is unknown.
    empty
        Starts a plan that moves all workers off a host.
    leave
        Discards such plans of a host that were not started.
    """

    def __init__(
        self,
        drains: DrainedNodes,
        journal: Journal,
        now: Callable[[], Problem],
        empty: Callable[[str, DrainRequest], Plan],
        leave: Callable[[str, ChangeRequest], None],
    ) -> None:
        self._drains, self._journal, self._now, self._empty, self._leave = drains, journal, now, empty, leave

    def drain(self, node: str, request: DrainRequest) -> DrainResponse:
        """Cordon a node and, unless `only_cordon` is set, start to move its workers away.

        Parameters
        ----------
        node
            A host, or the id of a supervisor: then it is that one's host.
        request
            By whom, why, and how.

        Raises
        ------
        NotFoundError
            There is no such node.
        ConflictError
            It is the last schedulable node, Nimbus has not polled yet, or too many plans are queued.
        """
        problem = self._now()
        host = _host(problem, node)
        nodes = [each.id for each in problem.supervisors if each.host == host]
        others = [each.host != host for each in problem.supervisors]
        if not (problem.node_usable & np.array(others, dtype=bool)).any():
            raise ConflictError(f"{host} is the last schedulable node: add a node, or uncordon another, first")
        drained = self._drains.drain(host, nodes, request.by, request.reason)
        self._journal.add_entry("cordon", request.by, request.reason, f"{host} takes no new workers")
        log.info("%s takes no new workers from now on, says %s: %s", host, request.by, request.reason)
        workers = workers_on(problem, host)
        if request.only_cordon or not workers:
            return DrainResponse(drained=drained.model_copy(update={"workers": workers}))
        plan = self._empty(host, request)
        self._drains.planned(host, plan.id)
        return DrainResponse(drained=drained.model_copy(update={"workers": workers, "plan": plan.id}), plan=plan)

    def uncordon(self, node: str, change: ChangeRequest) -> DrainedHost:
        """Make a node schedulable again, and discard plans to empty it that were not started.

        Raises
        ------
        NotFoundError
            It is not drained.
        """
        drained = self._drains.find(node)
        if drained is None:
            known = ", ".join(sorted(self._drains.hosts)) or "no node"
            raise NotFoundError(f"{node} is not drained; {known} is")
        self._drains.uncordon(drained.host)
        self._leave(drained.host, change)
        self._journal.add_entry("uncordon", change.by, change.reason, f"{drained.host} takes new workers")
        log.info("%s takes new workers again, says %s: %s", drained.host, change.by, change.reason)
        return drained

    def hosts(self) -> tuple[str, ...]:
        """Names of drained hosts, in the order in which they were drained."""
        return tuple(each.host for each in self._drains.all())

    def drained(self) -> DrainedHosts:
        """All drained nodes, with how many workers are still on each."""
        drained = self._drains.all()
        try:
            problem = self._now() if drained else None
        except ConflictError:
            problem = None
        if problem is not None:
            drained = tuple(each.model_copy(update={"workers": workers_on(problem, each.host)}) for each in drained)
        return DrainedHosts(drained=drained)


def workers_on(problem: Problem, host: str) -> int:
    """How many workers run on a host."""
    used = np.unique(problem.current_slot[problem.current_slot != UNPLACED])
    there = [node.host == host for node in problem.supervisors]
    return int(np.array(there, dtype=bool)[problem.slot_node[used]].sum())


def _host(problem: Problem, node: str) -> str:
    hosts = {each.host for each in problem.supervisors}
    if node in hosts:
        return node
    index = problem.cluster.find_node(node)
    if index is None:
        raise NotFoundError(f"there is no node {node}{suggestion_for(node, hosts)}")
    return problem.supervisors[index].host
