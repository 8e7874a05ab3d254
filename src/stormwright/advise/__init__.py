"""Capacity advice: executors, workers and nodes for a rate or an objective; published rules for comparison.

::

    a window of measurements ─▶ Observation ─▶ Adviser ─▶ TargetSize: executors by component, workers

`rules` has AdaStorm, DS2, Dhalion, Stela; `search` the search by `stormwright.predict`. The package is callable:
``stormwright.advise(problem, rate=9000)``.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

from stormwright.errors import Fault, InputError, collected

if TYPE_CHECKING:
    from pathlib import Path

    from stormwright.advise.search.advice import Advice
    from stormwright.advise.search.goals import AdviceGoals
    from stormwright.advise.search.kinds import NodeKind
    from stormwright.model import Problem


class CallableAdvise(ModuleType):
    """Type of this package; a function `stormwright.advise` would hide the package."""

    def __call__(
        self,
        problem: Problem,
        *,
        rate: float | Mapping[str, float] | None = None,
        times: float | Mapping[str, float] | None = None,
        p95_ms: float | None = None,
        headroom_percent: float = 20.0,
        node_kinds: str | Path | Sequence[str | NodeKind] = (),
        max_nodes: int = 1_000,
        max_executors: int = 100_000,
        ui: Sequence[str | Path | Mapping[str, Any]] = (),
        costs: str | Path | Mapping[str, Any] | None = None,
        alternatives: bool = True,
    ) -> Advice:
        """Find the cheapest executors, workers and nodes for a rate, like ``stormwright advise``.

        Parameters
        ----------
        problem
            Problem with running topologies and a measured load.
        rate
            Target rate in trees/s, of the only topology; or rates by id or name of topologies.
        times
            Target rate as a multiple of the measured one, of all topologies; or multiples by id or name.
        p95_ms
            Maximum 95th percentile of complete latency, in ms.
        headroom_percent
            Percent of every thread, node and link to keep free.
        node_kinds
            Available node types: a TOML or JSON file, or texts ``NAME=CORE_MHZ:CORES:MEMORY_MB:PRICE``; by default more
            of the present ones, at a price of 1 per core.
        max_nodes, max_executors
            Maximum number of nodes, and of executors of a topology.
        ui
            Responses of Storm's UI to ``GET /api/v1/topology/ID?window=600``, or files with them.
        costs
            Costs of messages and workers, as a file or its content; as for `predict`.
        alternatives
            Whether to search for clusters with other headrooms, too.

        Returns
        -------
        Advice
            A sequence of the advice for each component; topologies, nodes, price and steps of the search.

        Raises
        ------
        InputError
            The argument is no problem, a goal is out of range or impossible, or a file is invalid; all faults at once.
        """
        from pathlib import Path

        from stormwright.advise.search.advise import advised
        from stormwright.advise.search.goals import AdviceGoals
        from stormwright.advise.search.kinds import duplicate_faults, parse_kind, read_kinds
        from stormwright.advise.ui import with_measured
        from stormwright.model.problem import require_problem

        require_problem(problem)
        faults: list[Fault] = []
        kinds: list[NodeKind] = []
        with collected(faults, "node_kinds"):
            if isinstance(node_kinds, Path) or (isinstance(node_kinds, str) and "=" not in node_kinds):
                kinds += read_kinds(Path(node_kinds))
            else:
                given = [node_kinds] if isinstance(node_kinds, str) else node_kinds
                parsed = [parse_kind(each, faults) if isinstance(each, str) else each for each in given]
                kinds += filter(None, parsed)
            faults += duplicate_faults(kinds)
        goals: AdviceGoals | None = None
        with collected(faults, "goals"):
            rates, factors = _by_topology(rate), _by_topology(times)
            goals = AdviceGoals(rates, factors, p95_ms, headroom_percent / 100, max_nodes, max_executors)
        if faults or goals is None:
            raise InputError("advise", faults)
        files = [each if isinstance(each, Mapping) else Path(each) for each in ui]
        problem, held = with_measured(problem, files, costs)
        return advised(problem, goals, tuple(kinds), held, alternatives)


def _by_topology(given: float | Mapping[str, float] | None) -> dict[str, float]:
    """Return numbers by topology, one number under the empty name."""
    if given is None:
        return {}
    return dict(given) if isinstance(given, Mapping) else {"": float(given)}


sys.modules[__name__].__class__ = CallableAdvise
