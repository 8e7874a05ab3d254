"""Definitions of the tables of the history."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from stormwright.pipeline.measurement.panes import KEYS, VALUES

#: Rows of version n of a table → the same as rows of version n + 1.
Migration = Callable[[DataFrame], DataFrame]

_ARROW_TYPES = {"string": pa.string(), "long": pa.int64(), "double": pa.float64(), "boolean": pa.bool_()}


@dataclass(frozen=True)
class Table:
    """A table of the history, partitioned by day.

    Parameters
    ----------
    columns
        Name → Spark type, of the newest version.
    key
        Columns that identify a row.
    moment
        Column that determines the day: milliseconds since 1970.
    order
        Columns by which the rows of a past day are sorted.
    migrations
        The first leads from version 1 to 2. Rows keep the version that they were written in until their day is
        compacted; readers get the newest.
    alike_since
        First version that has no other columns than the newest, and at most lacks some, which are null; 0 for the
        newest version alone.
    """

    name: str
    columns: Mapping[str, str]
    key: tuple[str, ...]
    moment: str = "at_ms"
    order: tuple[str, ...] = ()
    migrations: tuple[Migration, ...] = ()
    alike_since: int = 0

    @property
    def version(self) -> int:
        """Newest version, in which new rows are written."""
        return len(self.migrations) + 1

    @property
    def arrow(self) -> pa.Schema:
        """Columns as an Arrow schema."""
        return pa.schema([(name, _ARROW_TYPES[kind]) for name, kind in self.columns.items()])

    @property
    def ddl(self) -> str:
        """Columns as a Spark schema."""
        return ", ".join(f"{name} {kind}" for name, kind in self.columns.items())

    def migrated(self, rows: DataFrame, version: int) -> DataFrame:
        """Return rows of an older version in the newest one, with their additional columns."""
        for migration in self.migrations[version - 1 :]:
            rows = migration(rows)
        return rows


#: Columns of facts that version 1 does not have.
_WAITS_AND_NODES = (
    *("waited_ns", "waited_known_ns", "runs", "runs_known_ns", "pending_ns", "pending_known_ns"),
    *("used_ns", "quota_ns", "used_known_ns"),
)


def _with_waits_and_nodes(rows: DataFrame) -> DataFrame:
    unknown = {name: F.lit(None).cast(VALUES[name]) for name in _WAITS_AND_NODES}
    return rows.withColumns(unknown)


#: Facts per pane of 3 s (`pipeline.measurement.panes`), each pane once, when no record can reach it any more.
FACTS = Table(
    "facts",
    {"pane_ms": "long", **KEYS, **VALUES},
    key=("pane_ms", *KEYS),
    moment="pane_ms",
    # Each pair's panes follow each other: the keys then take next to no room, and a topology's rows lie together.
    order=("kind", "topology", "component", "stream", "first", "second", "supervisor", "grouping", "pane_ms"),
    migrations=(_with_waits_and_nodes,),
    alike_since=1,
)

#: The cluster and what ran on it, without load, whenever that changed. `document` is a `stormwright-problem/1`, `id`
#: its hash.
SNAPSHOTS = Table("snapshots", {"at_ms": "long", "id": "string", "document": "string"}, key=("at_ms",))

#: Measured loads: `document` has `topologies` as the `load` of a `stormwright-problem/1` whose snapshot is `snapshot`,
#: and `node_cpu_hz`, `node_quota_hz`, `node_overhead_hz` (the last two not in old rows) and `overload_s` by supervisor.
PROFILES = Table(
    "profiles",
    {"at_ms": "long", "snapshot": "string", "start_ms": "long", "end_ms": "long", "document": "string"},
    key=("at_ms",),
)

#: Each look at the placement. Costs are of what ran, of what the scheduler wanted, and of what the planned moves lead
#: to within the budget; `inter_node` is in tuples/s. `moves` is a JSON object, topology id → list of how many
#: executors move, for each of its moves: more than one where it goes by way of spare slots (in older rows a number, of
#: the last). `snapshot` and `profile_ms` lead to the rows that the decision was made on.
DECISIONS = Table(
    "decisions",
    {
        "at_ms": "long",
        "scheduler": "string",
        "parameters": "string",
        "reason": "string",
        "dry_run": "boolean",
        "moves": "string",
        "cost_before": "double",
        "cost_wanted": "double",
        "cost_after": "double",
        "inter_node_before_tps": "double",
        "inter_node_wanted_tps": "double",
        "inter_node_after_tps": "double",
        "snapshot": "string",
        "profile_ms": "long",
    },
    key=("at_ms",),
)

#: Each move that was tried; of one that failed there is `failure` and no times.
MOVES = Table(
    "moves",
    {
        "at_ms": "long",
        "decision_ms": "long",
        "topology": "string",
        "moved_executors": "long",
        "started_workers": "long",
        "stopped_workers": "long",
        "unchanged_workers": "long",
        "drain_s": "double",
        "swap_s": "double",
        "resume_s": "double",
        "started_ms": "long",
        "ended_ms": "long",
        "complete": "boolean",
        "failure": "string",
    },
    key=("decision_ms", "topology"),
)

#: Outcome of a move (`stormwright.history.evaluation.verdict`): values after it as multiples of those before.
EVALUATIONS = Table(
    "evaluations",
    {
        "at_ms": "long",
        "decision_ms": "long",
        "topology": "string",
        "quantity": "string",
        "predicted": "double",
        "measured": "double",
        "low": "double",
        "high": "double",
        "windows_before": "long",
        "windows_after": "long",
        "verdict": "string",
    },
    key=("decision_ms", "topology", "quantity"),
)

#: Cells of sweeps that were run with this history (`stormwright sweep --state`): `name` is the sweep's, `cell` the key,
#: and the other columns those of `stormwright.workbench.sweep.work.ROW`. One that failed may have been decided again.
EXPERIMENTS = Table(
    "experiments",
    {
        "at_ms": "long",
        "name": "string",
        "cell": "string",
        "problem": "string",
        "scheduler": "string",
        "parameters": "string",
        "seed": "long",
        "repeat": "long",
        "version": "string",
        "error": "string",
        "seconds": "double",
        "cost": "double",
        "inter_node": "double",
        "valid": "boolean",
        "unplaced": "long",
        "nodes": "long",
        "moved_executors": "long",
    },
    key=("name", "cell", "at_ms"),
)

TABLES: Mapping[str, Table] = {
    table.name: table for table in (FACTS, SNAPSHOTS, PROFILES, DECISIONS, MOVES, EVALUATIONS, EXPERIMENTS)
}
