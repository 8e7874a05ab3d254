"""Requests of Nimbus for placements, on a thread of their own: nothing else in the service delays them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import orjson

from stormwright.base.gc_pause import collection_paused
from stormwright.errors import Fault, InputError, NotLeadingError
from stormwright.formats import placement_to_dict
from stormwright.formats.nimbus_snapshot import SOURCE, SnapshotReader
from stormwright.model import Problem
from stormwright.storm.bridge import Bridge, NimbusAnswer

#: How long Nimbus waits, in ms: where it says so in its configuration, and where it does not.
DEADLINE_MS = "stormwright.service.deadline.ms"
DEFAULT_DEADLINE_MS = 1500

#: The part of that after which it is answered, whoever has not decided yet; the rest is for the way back.
IN_TIME = 0.8

#: An initial scheduler that is to answer at all has so many seconds, even where reading took them.
_MIN_S = 0.05

#: Executors in a question, ten times what the service is built for: each takes memory, which few bytes could ask for.
MAX_EXECUTORS = 1_000_000


class NimbusRequests:
    """Answers Nimbus, one question at a time, on one thread.

    Parameters
    ----------
    bridge
        Scheduling bridge that computes the slots, only while this service leads.
    """

    def __init__(self, bridge: Bridge) -> None:
        self._bridge = bridge
        self._reader = SnapshotReader()
        self._thread = ThreadPoolExecutor(1, "stormwright-nimbus")
        self._busy = False

    async def answer(self, body: bytes) -> tuple[int, bytes]:
        """Return HTTP status and body for a request of Nimbus; 503 while another one is answered."""
        if self._busy:
            return 503, _error("busy with another request")
        self._busy = True
        return await asyncio.get_running_loop().run_in_executor(self._thread, self.answer_now, body, time.monotonic())

    def answer_now(self, body: bytes, arrived_s: float) -> tuple[int, bytes]:
        """Answer on this thread a request that arrived at `arrived_s` (`time.monotonic`)."""
        try:
            with collection_paused():
                snapshot = self._reader.read(body)
                _require_size(snapshot.problem)
                left_s = _limit_s(snapshot.problem.conf) - (time.monotonic() - arrived_s)
                self._bridge.leads()
                answer = self._bridge.answer(snapshot.problem, snapshot.unfit, max(left_s, _MIN_S))
                epoch = self._bridge.leads()  # still, after all that time
        except InputError as error:  # also what only the scheduler can judge
            return 400, _error(str(error))
        except NotLeadingError as error:
            return 503, _error(str(error))
        finally:
            self._busy = False
        return 200, _answer_bytes(answer, epoch)


def _limit_s(conf: Mapping[str, Any]) -> float:
    """Return the deadline for Nimbus's questions, in seconds."""
    value = conf.get(DEADLINE_MS)
    deadline_ms = value if isinstance(value, int | float) and 0 < value < 1e9 else DEFAULT_DEADLINE_MS
    return IN_TIME * deadline_ms / 1000


def _require_size(problem: Problem) -> None:
    executors = sum(topology.num_executors for topology in problem.topologies)
    if executors > MAX_EXECUTORS:
        fault = Fault(f"asks for {executors:,} executors; at most {MAX_EXECUTORS:,} are taken", "$.topologies")
        raise InputError(SOURCE, [fault])


def _answer_bytes(answer: NimbusAnswer, epoch: int | None) -> bytes:
    """Return the answer as JSON, with the leader's epoch: Nimbus ignores answers of an earlier one."""
    value = {
        "schema": "stormwright-assignment/1",
        "assignments": {name: placement_to_dict(placement) for name, placement in answer.assignments.items()},
        "status": dict(answer.status),
    }
    return orjson.dumps(value if epoch is None else value | {"epoch": epoch})


def _error(text: str) -> bytes:
    return orjson.dumps({"error": text})
