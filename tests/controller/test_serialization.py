"""Topologies whose tuples cannot leave their worker: from records to placements that no plan may have."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from stormwright.controller.objectives.bounds import out_of_bounds
from stormwright.controller.propose import propose
from stormwright.controller.requests import Improve, Place, PlanInputs
from stormwright.controller.serialization import Serialization, split_workers
from stormwright.errors import InputError
from stormwright.model import Problem
from stormwright.model.topology_config import CONFINED, WORKERS_KEY
from stormwright.schedulers import make_scheduler
from tests.controller.builders import on, problem, record, topology

NOT_REGISTERED = "java.lang.IllegalArgumentException: Class is not registered: java.util.Date"
STREAMS = [["a-spout", "default", "b-bolt", "fields"], ["a-spout", "__ack_init", "__acker", "fields"]]


def running(*of_nodes: str, asks: int = 2, **conf: Any) -> Problem:
    """Topology ``a`` with one spout and three bolt executors, in a worker on each of these nodes."""
    one = replace(topology("a", workers=asks), conf=conf)
    return problem([one], current={"a-1-0": on(*of_nodes)})


def known(*records: dict[str, Any]) -> Serialization:
    found = Serialization()
    found.count(records)
    return found


def sent(size: int, start_ms: int = 0, **more: Any) -> dict[str, Any]:
    """A record of 20 tuples on the only stream, of this size together; acks are never sized."""
    of = record("a-1-0", "n0", 0, start_ms=start_ms, pairs=[[1, 2, 0, 20, size], [1, 5, 1, 20, 0]])
    return of | {"streams": STREAMS} | more


def failed() -> dict[str, Any]:
    return sent(0, unserializable=[["a-spout", "default", NOT_REGISTERED]])


@pytest.mark.parametrize(
    ("records", "nodes", "why"),
    [
        ([failed()], ("n0",), "cannot be serialized"),
        ([failed()], ("n0", "n1"), "cannot be serialized"),
        ([sent(0), failed()], ("n0",), "cannot be serialized"),
        ([sent(0)], ("n0",), "nothing has left its worker"),
        ([sent(0)], ("n0", "n1"), ""),
        ([sent(400)], ("n0",), ""),
        ([sent(0), sent(400, start_ms=6000)], ("n0",), ""),
        ([], ("n0",), ""),
    ],
)
def test_reason_follows_from_records(records, nodes, why):
    of = known(*records).confine(running(*nodes))
    assert why in of.topologies[0].conf.get(CONFINED, "")
    assert bool(of.topologies[0].conf) == bool(why)


def test_a_topology_that_asks_for_one_worker_keeps_it_unless_its_owner_says_otherwise():
    sized, unsized = known(sent(400)), known(sent(0))
    why = sized.confine(running("n0", asks=1)).topologies[0].conf[CONFINED]
    assert why.startswith("it asks for one worker; stormwright.workers: free")
    free = {WORKERS_KEY: "free"}
    assert Serialization().confine(running("n0", asks=1)).topologies[0].conf[CONFINED] == why, "before any record"
    consolidated = {"topology.workers": 3}
    for of in (
        running("n0", "n1", asks=1),
        running("n0", asks=1, **free),
        running("n0", **free),
        running("n0", asks=1, **consolidated),
    ):
        assert CONFINED not in sized.confine(of).topologies[0].conf
    assert CONFINED not in unsized.confine(running("n0", asks=1, **free)).topologies[0].conf
    assert CONFINED in known(failed()).confine(running("n0", asks=1, **free)).topologies[0].conf, "that is no doubt"


def test_error_is_named_with_stream_and_class():
    why = known(failed()).confine(running("n0")).topologies[0].conf[CONFINED]
    assert why == f"tuples of a-spout on stream default cannot be serialized ({NOT_REGISTERED})"


@pytest.mark.parametrize(
    ("now", "then", "splits"),
    [
        (("n0",), [0, 0, 0, 0], False),
        (("n0",), [2, 2, 2, 2], False),
        (("n0",), [0, 0, 2, 2], True),
        (("n0", "n1"), [0, 0, 0, 0], False),
        (("n0", "n1"), [4, 4, 2, 2], False),
        (("n0", "n1"), [0, 2, 2, 2], True),
    ],
)
def test_executors_of_a_worker_stay_together(now, then, splits):
    of = known(failed()).confine(running(*now))
    wanted = np.array(then, np.int32)
    assert bool(split_workers(of, wanted)) == splits
    assert ("a-1-0" in out_of_bounds(of, wanted)) == splits
    assert not split_workers(running(*now), wanted)


def test_same_objects_as_long_as_nothing_new_is_known():
    serialization, of = known(failed()), running("n0")
    first = serialization.confine(of)
    assert serialization.confine(of) is first
    assert serialization.confine(running("n0")) is not first
    again = of.with_current({})
    assert serialization.confine(again).topologies[0] is serialization.confine(of).topologies[0]


def test_no_plan_spreads_it():
    of = known(failed()).confine(running("n0"))
    for name in ("optimizer", "online", "even"):
        found = propose(of, Improve(), PlanInputs(scheduler=make_scheduler(name)))
        workers = {len(move.after.slots) for step in getattr(found, "steps", ()) for move in step.moves}
        assert workers <= {1}, name
    request = Place({"a-1-0": on("n0", "n1")}, origin="person")
    with pytest.raises(InputError, match="would be separated"):
        propose(of, request, PlanInputs(predicts=False))
    assert propose(of, replace(request, origin="rollback"), PlanInputs(predicts=False)), "a way back always exists"
