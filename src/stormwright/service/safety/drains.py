"""Persistent registry of drained nodes."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Collection
from dataclasses import replace

import orjson

from stormwright.client.shapes import DrainedHost
from stormwright.model import Problem
from stormwright.model.humanize import in_utc
from stormwright.service.storage.database import State


class DrainedNodes:
    """Keeps the nodes that are drained; safe to use from several threads.

    A drain is of a host, as in Storm's blacklist: supervisors that share it share its machine. Where it holds, our
    schedulers see the host as Storm shows them one that it has blacklisted itself, and say by whom it was drained.

    Parameters
    ----------
    state
        Database of the service, from which drains survive a restart.
    """

    def __init__(self, state: State) -> None:
        self._state, self._changing = state, threading.Lock()
        self._drained = {row["host"]: _drained(row) for row in state.read("SELECT * FROM drains ORDER BY since_ms")}
        self._last_applied: tuple[Problem, dict[str, str], Problem] | None = None

    def all(self) -> tuple[DrainedHost, ...]:
        """Every drained host, in the order in which they were drained."""
        return tuple(self._drained.values())

    @property
    def hosts(self) -> frozenset[str]:
        """The drained hosts."""
        return frozenset(self._drained)

    def find(self, node: str) -> DrainedHost | None:
        """The drain of a host, or of a supervisor (by id) on it."""
        drained = self._drained
        return drained.get(node) or next((each for each in drained.values() if node in each.nodes), None)

    def drain(self, host: str, nodes: Collection[str], who: str, reason: str) -> DrainedHost:
        """Let a host take nothing new; of two reasons the newer counts.

        Parameters
        ----------
        host, nodes
            Its name, and the ids of its supervisors.
        who, reason
            Who wants it, and why.
        """
        with self._changing:
            row = (host, orjson.dumps(sorted(nodes)).decode(), round(self._state.clock.time() * 1000), who, reason)
            with self._state.change() as to:
                to.execute("INSERT OR REPLACE INTO drains (host, nodes, since_ms, who, reason) VALUES (?,?,?,?,?)", row)
            drained = DrainedHost(host=host, nodes=tuple(sorted(nodes)), since_ms=row[2], by=who, reason=reason)
            self._drained = {**self._drained, host: drained}
            return drained

    def planned(self, host: str, plan: str) -> None:
        """Note the plan that empties a host."""
        with self._changing:
            with self._state.change() as to:
                to.execute("UPDATE drains SET plan = ? WHERE host = ?", (plan, host))
            if found := self._drained.get(host):
                self._drained = {**self._drained, host: found.model_copy(update={"plan": plan})}

    def uncordon(self, host: str) -> bool:
        """Make a host schedulable again; return False if it was not drained."""
        with self._changing:
            with self._state.change() as to:
                gone = to.execute("DELETE FROM drains WHERE host = ?", (host,)).rowcount
            self._drained = {other: each for other, each in self._drained.items() if other != host}
            return bool(gone)

    def on(self, problem: Problem) -> Problem:
        """Return the problem with its drained hosts blacklisted.

        It is called each second, so the last result is reused, and for another snapshot what was derived of its nodes.
        """
        known = self._drained
        there = known.keys() & {node.host for node in problem.supervisors} if known else ()
        drained = {host: _by_whom(known[host]) for host in sorted(there)}
        if drained == problem.drained:
            return problem
        last_applied = self._last_applied
        if last_applied and last_applied[0] is problem and last_applied[1] == drained:
            return last_applied[2]
        both = problem.blacklisted_hosts | drained.keys()
        parts = problem.parts
        if last_applied and parts and last_applied[2].blacklisted_hosts == both:
            # The very object by which it is known that nothing of the nodes has changed.
            both, parts = last_applied[2].blacklisted_hosts, parts._replace(cluster=last_applied[2].cluster)
        found = replace(problem, blacklisted_hosts=both, drained=drained, parts=parts)
        self._last_applied = (problem, drained, found)
        return found


def _by_whom(drained: DrainedHost) -> str:
    return f"drained by {drained.by} since {in_utc(drained.since_ms)[: len('2026-11-21 10:30')]} UTC"


def _drained(row: sqlite3.Row) -> DrainedHost:
    return DrainedHost(
        host=row["host"],
        nodes=tuple(orjson.loads(row["nodes"])),
        since_ms=row["since_ms"],
        by=row["who"],
        reason=row["reason"],
        plan=row["plan"],
    )
