"""What the scheduler knew at a moment of the past: the history's snapshots and profiles as problems again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import orjson

from stormwright.errors import Fault, InputError
from stormwright.formats import problem_from_dict
from stormwright.history.asked.looks import newest
from stormwright.history.tables.definitions import PROFILES, SNAPSHOTS
from stormwright.history.tables.store import Store
from stormwright.model import LoadProfile, Problem
from stormwright.model.humanize import in_utc


def known_at(store: Store, moment_ms: int) -> Problem:
    """The cluster and what ran on it, under the load that was measured last, as known at a moment.

    Raises
    ------
    InputError
        Nothing was recorded up to then.
    """
    snapshot = newest(store, SNAPSHOTS, moment_ms)
    if snapshot is None:
        raise InputError("history", [Fault("nothing is recorded up to then", in_utc(moment_ms))])
    return problem_of(snapshot["document"], newest(store, PROFILES, moment_ms), in_utc(moment_ms))


def problem_of(snapshot: str, profile: Mapping[str, Any] | None, name: str) -> Problem:
    """A problem from the document of a snapshot and a row of profiles.

    Topologies that are no longer as they were when the load was measured have none: they were killed, or have another
    number of executors.
    """
    document = orjson.loads(snapshot) | {"name": name}
    if profile is None:
        return problem_from_dict(document, "snapshot of the history")
    measured = orjson.loads(profile["document"])
    executors = {raw["id"]: sum(run[2] for run in raw["executor_runs"]) for raw in document["topologies"]}
    loads = {name: load for name, load in measured["topologies"].items() if len(load["cpu_hz"]) == executors.get(name)}
    problem = problem_from_dict(document | {"load": loads}, "snapshot and profile of the history")
    return problem.with_load(
        replace(
            problem.load or LoadProfile({}),
            node_cpu_hz=measured["node_cpu_hz"],
            overload_s=measured["overload_s"],
            start_ms=profile["start_ms"],
            end_ms=profile["end_ms"],
        )
    )
