"""Episodes of overloaded nodes: one definition for live alarms and for reports on a stretch of time.

- A node's *cores* in a second are what its control group used in it where its workers report that, else what its
  workers used. A worker's silence of at most `settle_s` seconds is bridged on a straight line: records were lost. A
  longer one counts as no worker.
- A second is *over* if the cores are at or above the node's capacity, or the group's quota if that is less. A second
  without a report of any worker is not.
- An *episode* is a longest run of seconds that are over, of more than X seconds.

Seconds are those since 1970, and whole.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from pyspark.sql import DataFrame

EPISODE = "supervisor string, start_s long, end_s long, peak_cores double, capacity_cores double"

#: Later than any second.
FOREVER_S = 2**40


class Capacity(NamedTuple):
    """The cores that a node has from `since_s` up to but not including `until_s`."""

    supervisor: str
    cores: float
    since_s: int = 0
    until_s: int = FOREVER_S


_CAPACITY = "supervisor string, capacity_cores double, since_s long, until_s long"


class Run(NamedTuple):
    """Seconds of a node that are over, from `start_s` up to but not including `end_s`."""

    start_s: int
    end_s: int
    peak_cores: float
    capacity_cores: float
    alarmed: bool = False


class NodeSecond(NamedTuple):
    """A node's used cores in a second (None without a report) and its capacity (None once it is gone)."""

    at: int
    cores: float | None
    capacity_cores: float | None


class NodeEpisodes(NamedTuple):
    """Result for a node: runs that may still change, and events."""

    runs: list[Run]
    newest_s: int
    raised: list[Run]
    ended: list[Run]


def final_after_s(after_s: float, longest_delay_s: int) -> int:
    """Return how long late records can still change whether a second is over.

    Never longer than X. So when an alarm is raised its beginning is certain, and an episode has one alarm: two runs
    that each have lasted longer than X never become one.
    """
    return min(int(after_s), longest_delay_s)


def follow(
    runs: Iterable[Run], newest_s: int | None, new_seconds: Iterable[NodeSecond], after_s: float, final_s: int
) -> NodeEpisodes:
    """Process further seconds of one node, given in any order and any number of times.

    1. A second that was ever reported as over is over. One that is `final_s` older than the newest is final.
    2. An alarm is raised when a run has lasted longer than `after_s`.
    3. The run ends when the second after it is final; it is dropped then.

    Parameters
    ----------
    runs
        Runs that had not ended before.
    newest_s
        The newest second processed before; None for none.
    new_seconds
        Further seconds; at least one if `newest_s` is None.
    after_s
        Minimum duration of an overload, X.
    final_s
        How long a second may still turn out to be over (`final_after_s`).
    """
    new_seconds = sorted(new_seconds, key=lambda second: second.at)
    oldest_s = -1 if newest_s is None else newest_s - final_s
    newest_s = max([second.at for second in new_seconds] + ([] if newest_s is None else [newest_s]))
    current = list(runs)
    for at, cores, capacity in new_seconds:
        if at > oldest_s and cores is not None and capacity is not None and cores >= capacity:  # 1
            current = _with(current, Run(at, at + 1, cores, capacity))
    raised = [run for run in current if not run.alarmed and run.end_s - run.start_s > after_s]  # 2
    current = [run._replace(alarmed=run.alarmed or run in raised) for run in current]
    over = [run for run in current if run.end_s <= newest_s - final_s]  # 3
    return NodeEpisodes(
        runs=[run for run in current if run not in over],
        newest_s=newest_s,
        raised=raised,
        ended=[run for run in over if run.alarmed],
    )


def _with(runs: list[Run], new: Run) -> list[Run]:
    """Return `runs` with a new one, adjoining runs merged, in order."""
    touching = [run for run in runs if run.start_s <= new.end_s and new.start_s <= run.end_s]
    joined = Run(
        start_s=min(run.start_s for run in (*touching, new)),
        end_s=max(run.end_s for run in (*touching, new)),
        peak_cores=max(run.peak_cores for run in (*touching, new)),
        capacity_cores=new.capacity_cores,
        alarmed=any(run.alarmed for run in touching),
    )
    return sorted([*(run for run in runs if run not in touching), joined])


_EPISODES = """
WITH worker_seconds AS (
    SELECT topology, supervisor, second AS port, first AS at, SUM(cpu_ns) / SUM(length_ns) AS cores,
        SUM(used_ns) / SUM(used_known_ns) AS used, SUM(quota_ns) / SUM(used_known_ns) AS quota
    FROM {panes}
    WHERE kind = 'node' AND first BETWEEN :start_s - :settle_s - 1 AND :end_s + :settle_s
    GROUP BY topology, supervisor, second, first
), with_next AS (
    SELECT *, LEAD(at) OVER worker AS next_at, LEAD(cores) OVER worker AS next_cores,
        LEAD(used) OVER worker AS next_used, LEAD(quota) OVER worker AS next_quota
    FROM worker_seconds
    WINDOW worker AS (PARTITION BY topology, supervisor, port ORDER BY at)
), bridged AS (
    SELECT supervisor, at + n AS at, IF(n = 0, cores, cores + (next_cores - cores) * n / (next_at - at)) AS cores,
        IF(n = 0, used, used + (next_used - used) * n / (next_at - at)) AS used,
        IF(n = 0, quota, quota + (next_quota - quota) * n / (next_at - at)) AS quota
    FROM with_next
    LATERAL VIEW EXPLODE(SEQUENCE(0L, IF(next_at - at <= :settle_s + 1, next_at - at - 1, 0L))) AS n
), node_seconds AS (
    SELECT supervisor, at, COALESCE(AVG(used), SUM(cores)) AS cores, AVG(quota) AS quota
    FROM bridged
    WHERE at >= :start_s AND at < :end_s
    GROUP BY supervisor, at
), seconds_over AS (
    SELECT supervisor, at, cores, LEAST(capacity_cores, quota) AS capacity_cores,
        at - ROW_NUMBER() OVER (PARTITION BY supervisor ORDER BY at) AS island
    FROM node_seconds JOIN {capacities} USING (supervisor)
    WHERE at >= since_s AND at < until_s AND cores >= LEAST(capacity_cores, quota)
)
SELECT supervisor, MIN(at) AS start_s, MAX(at) + 1 AS end_s, MAX(cores) AS peak_cores,
    MAX(capacity_cores) AS capacity_cores
FROM seconds_over
GROUP BY supervisor, island
HAVING COUNT(*) > :after_s
ORDER BY start_s, supervisor
"""


def episodes(
    panes: DataFrame,
    capacities: Iterable[Capacity],
    after_s: float,
    settle_s: int,
    start_s: int = 0,
    end_s: int = FOREVER_S,
) -> DataFrame:
    """Return all episodes within a stretch of time, as `EPISODE`; longer ones are cut to it.

    Parameters
    ----------
    panes
        As `measurement.panes.panes` or, from files, `streaming.batch.backfill` gives them.
    capacities
        Capacities of nodes; those of one node do not overlap. A node without capacity has no episode.
    after_s
        Minimum duration of an overload, X.
    settle_s
        Seconds at the end of a node's CPU that are not checked, as in `stormwright.pipeline.settings.StreamSettings`.
    start_s, end_s
        The period, without `end_s` itself.
    """
    spark = panes.sparkSession
    known = spark.createDataFrame(list(capacities), _CAPACITY)
    arguments = {"after_s": after_s, "settle_s": settle_s, "start_s": start_s, "end_s": end_s}
    return spark.sql(_EPISODES, arguments, panes=panes, capacities=known)
