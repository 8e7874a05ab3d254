"""Every move judged after the fact: waits until enough has been seen, and remembers what came of it over restarts."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from stormwright.files import write_whole
from stormwright.history.judged.judging import Judgement, calibration, judge
from stormwright.history.judged.observed import ObservedTraffic, Window
from stormwright.model import Problem
from stormwright.model.arrays import IntArray
from stormwright.model.traffic.traffic import traffic_under

#: What is judged. The first is tuples between nodes for each tuple tree, or for each tuple processed where no tree is
#: tracked: so a load that grows or falls meanwhile changes nothing. The cost model takes rates as given, so it predicts
#: that the second one, trees or tuples per second, stays as it is: its interval is to be looked at.
INTER_NODE, THROUGHPUT = "inter-node tuples per tree", "throughput"

#: Windows looked at on either side, at most.
BEFORE, AFTER = 24, 12

#: Seconds after a move that are left out: caches and compilers warm up.
SETTLE_S = 20.0

#: A move of which so many seconds later not enough was seen is judged by what there is.
PATIENCE_S = 3600.0

#: Judgements that calibrate.
KEPT = 100


@dataclass(frozen=True)
class Judged:
    """What came of the move of one topology."""

    decision_ms: int
    topology: str
    judgement: Judgement


@dataclass(frozen=True)
class _Pending:
    """A move that is not judged yet, with what was seen before it."""

    decision_ms: int
    topology: str
    predicted: float | None
    ended_ms: int
    per: str
    inter_node: list[float] = field(default_factory=list)
    throughput: list[float] = field(default_factory=list)


class Evaluation:
    """Judges moves by the windows of traffic before and after them.

    Parameters
    ----------
    path
        Holds what is pending and what was judged.
    now_ms
        The time of day.
    """

    def __init__(
        self, path: Path, observed: ObservedTraffic, now_ms: Callable[[], int] = lambda: round(time.time() * 1000)
    ) -> None:
        self._path, self._observed, self._now_ms = path, observed, now_ms
        self._pending: dict[str, _Pending] = {}
        self._judged: deque[Judged] = deque(maxlen=KEPT)
        self._settled_ms: dict[str, float] = {}
        if path.exists():
            self._load()

    def moved(
        self, decision_ms: int, topology: str, predicted: float | None, started_ms: int, ended_ms: int
    ) -> list[Judged]:
        """Note that a topology was moved; what came of its last move is judged now at the latest.

        Parameters
        ----------
        decision_ms
            When it was decided, in ms since 1970: the key of the decision in the history.
        topology
            Its id.
        predicted
            Traffic between nodes after the move as a multiple of that before it, by the model (`predicted_ratio`);
            None where there was none before, so that traffic is not judged.
        started_ms, ended_ms
            Of the move, in ms since 1970. What was before the one and well after the other is compared.
        """
        judged = [self._judge(topology, until_ms=started_ms)] if topology in self._pending else []
        windows = self._windows(topology, self._settled_ms.get(topology, 0.0), started_ms)[-BEFORE:]
        per = "acked" if all(window.acked for window in windows) else "received"
        inter_node, throughput = _samples(windows, per)
        self._pending[topology] = _Pending(decision_ms, topology, predicted, ended_ms, per, inter_node, throughput)
        self._settled_ms[topology] = ended_ms + SETTLE_S * 1000
        self._save()
        return [found for each in judged for found in each]

    def due(self) -> list[Judged]:
        """What can be judged by now, each once."""
        found: list[Judged] = []
        for topology, pending in list(self._pending.items()):
            waited_s = (self._now_ms() - pending.ended_ms) / 1000
            if len(self._after(pending)) >= AFTER or waited_s > PATIENCE_S:
                found += self._judge(topology)
        if found:
            self._save()
        return found

    def status(self) -> dict[str, Any]:
        """For the status endpoint: ``calibration``, moves that are ``pending``, and the last ``judgements``."""
        return {
            "calibration": self.calibration,
            "pending": sorted(self._pending),
            "judgements": [asdict(judged) for judged in list(self._judged)[-10:]],
        }

    @property
    def calibration(self) -> float | None:
        """How much of the predicted effect on traffic arrives (`judging.calibration`)."""
        return calibration(judged.judgement for judged in list(self._judged) if judged.judgement.quantity == INTER_NODE)

    def _judge(self, topology: str, until_ms: float = float("inf")) -> list[Judged]:
        pending = self._pending.pop(topology)
        windows = [window for window in self._after(pending) if window.start_ms < until_ms][:AFTER]
        inter_node, throughput = _samples(windows, pending.per)
        judgements = [judge(THROUGHPUT, 1.0, pending.throughput, throughput)]
        if pending.predicted is not None:
            judgements.insert(0, judge(INTER_NODE, pending.predicted, pending.inter_node, inter_node))
        judged = [Judged(pending.decision_ms, topology, judgement) for judgement in judgements]
        self._judged.extend(judged)
        return judged

    def _after(self, pending: _Pending) -> list[Window]:
        return self._windows(pending.topology, pending.ended_ms + SETTLE_S * 1000, float("inf"))

    def _windows(self, topology: str, start_ms: float, end_ms: float) -> list[Window]:
        """Windows wholly inside a stretch of time in which all was known."""
        return [
            window
            for window in self._observed.windows(topology)
            if window.start_ms >= start_ms
            and window.start_ms + self._observed.window_ms <= end_ms
            and not window.unknown
            and window.received
        ]

    def _save(self) -> None:
        document = {
            "pending": [asdict(pending) for pending in self._pending.values()],
            "judged": [asdict(judged) for judged in self._judged],
        }
        self._path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(self._path, orjson.dumps(document))

    def _load(self) -> None:
        document = orjson.loads(self._path.read_bytes())
        self._pending = {raw["topology"]: _Pending(**raw) for raw in document["pending"]}
        self._judged.extend(
            Judged(raw["decision_ms"], raw["topology"], Judgement(**raw["judgement"])) for raw in document["judged"]
        )


def _samples(windows: Sequence[Window], per: str) -> tuple[list[float], list[float]]:
    """Of each window the crossing tuples for each tree or tuple, and trees or tuples per second."""
    inter_node = [window.crossing / getattr(window, per) for window in windows if getattr(window, per)]
    return inter_node, [getattr(window, per) / window.length_s for window in windows]


def predicted_ratio(problem: Problem, topology: int, after: IntArray) -> float | None:
    """Traffic between nodes of a topology under `after` as a multiple of what it is now; None where that is none.

    Parameters
    ----------
    topology
        Its index.
    after
        Slot of every executor of the problem, shape (E,).
    """
    now = _crossing_tps(problem, topology, problem.current_slot)
    return _crossing_tps(problem, topology, after) / now if now else None


def _crossing_tps(problem: Problem, topology: int, slots: IntArray) -> float:
    only = replace(problem, topologies=(problem.topologies[topology],))
    traffic = traffic_under(only, slots[problem.executors_of(topology)])
    node = only.slot_node[slots[problem.executors_of(topology)]]
    return float(traffic.tps[np.not_equal(node[traffic.source], node[traffic.target])].sum())
