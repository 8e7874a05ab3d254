"""The kind of a move follows from the code and configuration of a topology."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from math import ceil
from typing import Any

import pytest

from stormwright.cli.options import MOVE_KINDS
from stormwright.controller.reports import MoveLimits
from stormwright.controller.safety.move_kinds import KINDS, MoveSafety, move_safety, restarted_shares
from stormwright.controller.safety.move_permissions import forbidden_moves, needed_kinds, permission_of
from stormwright.model import Component, Grouping, Topology, TopologyAssignment, WorkerSlot, default_executor_runs
from stormwright.model.topology import ComponentCode
from stormwright.plans.modes import KindRule, Modes
from stormwright.plans.plan import TopologyMove
from tests.controller.builders import problem

STORM = "org.apache.storm."
WINDOWED = ComponentCode((f"{STORM}topology.WindowedBoltExecutor",))
STATEFUL = ComponentCode((f"{STORM}topology.StatefulBoltExecutor",))
PERSISTENT = ComponentCode((*STATEFUL.classes, f"{STORM}topology.PersistentWindowedBoltExecutor"))
REDIS = {"topology.state.provider": f"{STORM}redis.state.RedisKeyValueStateProvider"}
LENGTH, SLIDING = "topology.bolts.window.length.", "topology.bolts.window.sliding.interval."


def seconds(length: float, sliding: float) -> dict[str, Any]:
    return {f"{LENGTH}duration.ms": length * 1000, f"{SLIDING}duration.ms": sliding * 1000}


def topology(*bolts: Component, conf: dict[str, Any] | None = None, spout: Component | None = None) -> Topology:
    components = (spout or Component("spout", "spout", 2), *bolts)
    return Topology("t-1-0", "t", 1, components, default_executor_runs(components), conf=conf or {})


def bolt(
    name: str = "w", conf: dict[str, Any] | None = None, code: ComponentCode | None = None, source: str = "spout"
) -> Component:
    return Component(name, "bolt", 3, (Grouping(source),), conf=conf or {}, code=code)


def stateful(*bolts: Component, conf: dict[str, Any] | None = None) -> Topology:
    return topology(Component("$checkpointspout", "spout", 1), *bolts, conf=conf)


def of(kind: str, of: Topology, rate_tps: float | None = None) -> MoveSafety:
    found = move_safety(of, rate_tps, max_wait_s=300)
    assert found.kind == kind, found
    return found


def test_the_command_line_has_the_kinds_of_the_api() -> None:
    assert MOVE_KINDS == KINDS


def test_acked_topology_is_drained() -> None:
    safety = of("drain", topology(bolt()), 1000)
    assert (safety.wait_s, safety.replayed, safety.lost) == (0, 0, 0)
    assert of("drain", topology(bolt(), conf={"topology.acker.executors": 0})).lost == 0


def test_batches_of_several_workers_are_replayed() -> None:
    """The receiving thread of a worker has batches of its own, which nothing flushes."""
    batched = replace(topology(bolt(), conf={"topology.producer.batch.size": 4}), num_workers=2)
    safety = move_safety(batched)
    assert (safety.kind, safety.wait_s) == ("replay", 0.0)
    assert "until a batch of 4 (topology.producer.batch.size) is full" in safety.reason
    assert safety.replayed == 3 * sum(n for each, n in batched.executor_counts.items() if "spout" not in each)
    assert move_safety(replace(batched, num_workers=1)).kind == "drain"
    assert move_safety(replace(batched, conf={})).kind == "drain"


def test_topology_excluded_by_its_configuration_is_never_moved() -> None:
    of("never", topology(bolt(), conf={"stormwright.move": False}))


def test_short_windows_are_drained() -> None:
    assert of("drain", topology(bolt(conf=seconds(20, 10)))).wait_s == 30


def test_windows_in_sequence_add_up_and_parallel_ones_do_not() -> None:
    chain = topology(bolt("a", seconds(60, 20)), bolt("b", seconds(30, 10), source="a"))
    assert of("window", chain).wait_s == 120
    beside = topology(bolt("a", seconds(60, 20)), bolt("b", seconds(30, 10)))
    assert of("window", beside).wait_s == 80
    loop = Component("a", "bolt", 1, (Grouping("spout"), Grouping("a")), conf=seconds(60, 20))
    assert of("window", topology(loop)).wait_s == 80


def test_windows_longer_than_the_permitted_wait_are_replayed() -> None:
    long = topology(bolt(conf=seconds(100, 50)))
    assert move_safety(long, max_wait_s=150).wait_s == 150
    safety = move_safety(long, 200.0, max_wait_s=149)
    assert (safety.kind, safety.wait_s, safety.replayed) == ("window", None, 25_000)
    assert needed_kinds(safety) == ("window", "replay")


@pytest.mark.parametrize(
    ("conf", "code"),
    [
        ({f"{LENGTH}count": 10, f"{SLIDING}count": 10}, WINDOWED),
        ({f"{LENGTH}count": 10, f"{SLIDING}duration.ms": 1000}, WINDOWED),
        ({f"{LENGTH}duration.ms": 1000}, WINDOWED),
        (seconds(1, 1), replace(WINDOWED, event_time=True)),
        (seconds(1, 1) | {"topology.bolts.tuple.timestamp.max.lag.ms": 5}, None),
    ],
    ids=["count", "count by time", "time by count", "event time", "event time without classes"],
)
def test_windows_that_need_new_tuples_never_end_while_paused(conf: dict[str, Any], code: ComponentCode | None) -> None:
    assert of("window", topology(bolt(conf=conf, code=code))).wait_s is None


def test_replayed_tuples_are_limited_by_windows_rate_and_pending_trees() -> None:
    count = bolt(conf={f"{LENGTH}count": 100, f"{SLIDING}count": 20})
    assert of("window", topology(count)).replayed == 110 * 3
    assert of("window", topology(count, conf={"topology.max.spout.pending": 50})).replayed == 50 * 2
    own = Component("spout", "spout", 2, conf={"topology.max.spout.pending": 10})
    assert of("window", topology(count, spout=own, conf={"topology.max.spout.pending": 50})).replayed == 20
    by_time = topology(bolt(conf={f"{LENGTH}duration.ms": 5000}))
    assert of("window", by_time, 10.0).replayed == 50
    assert of("window", by_time).replayed is None


@pytest.mark.parametrize("guarantee", ["AT_MOST_ONCE", "NO_GUARANTEE"])
def test_windows_of_untracked_tuples_are_lost(guarantee: str) -> None:
    count = bolt(conf={f"{LENGTH}count": 100})
    assert of("replay", topology(count, conf={"topology.acker.executors": 0})).lost == 303
    kafka = Component("spout", "spout", 2, code=ComponentCode((f"{STORM}kafka.spout.KafkaSpout",), guarantee=guarantee))
    assert of("replay", topology(count, spout=kafka)).lost == 303
    sure = replace(kafka, code=ComponentCode((f"{STORM}kafka.spout.KafkaSpout",), guarantee="AT_LEAST_ONCE"))
    assert of("window", topology(count, spout=sure)).lost == 0


def test_stateful_bolts_need_a_checkpoint() -> None:
    safety = of("checkpoint", stateful(bolt(code=STATEFUL), conf=REDIS), 100.0)
    assert safety.checkpoint_s == 21
    assert (safety.replayed, safety.lost) == (110, 0)
    slow = {**REDIS, "topology.state.checkpoint.interval.ms": 60_000}
    assert of("checkpoint", stateful(bolt(code=STATEFUL), conf=slow)).checkpoint_s == 80
    of("checkpoint", stateful(bolt(conf=seconds(900, 900), code=PERSISTENT), conf=REDIS))


def test_state_in_memory_is_never_moved() -> None:
    of("never", stateful(bolt(code=STATEFUL)))
    of("never", stateful(bolt()))
    of("checkpoint", stateful(bolt(code=STATEFUL, conf=REDIS)))
    in_memory = {"topology.state.provider": f"{STORM}state.InMemoryKeyValueStateProvider"}
    assert (
        "odd" in of("never", stateful(bolt("odd", in_memory, STATEFUL), bolt("even", {}, STATEFUL), conf=REDIS)).reason
    )


def test_other_windows_of_a_stateful_topology_are_replayed() -> None:
    assert of("window", stateful(bolt(conf=seconds(1, 1), code=WINDOWED), conf=REDIS)).wait_s is None


def test_stateful_topology_without_ackers_loses_tuples() -> None:
    conf = {**REDIS, "topology.acker.executors": 0}
    assert of("replay", stateful(bolt(code=STATEFUL), conf=conf), 100.0).lost == 100


def test_trident_rests_between_two_batches() -> None:
    of("batch", topology(bolt(), spout=Component("$mastercoord-bg0", "spout", 1)))
    coordinator = ComponentCode((f"{STORM}trident.topology.MasterBatchCoordinator",))
    of("batch", topology(bolt(), spout=Component("spout", "spout", 1, code=coordinator)))


@pytest.mark.parametrize("value", [-5, 0, "20000", True, float("nan"), None, [1]])
def test_values_that_storm_would_refuse_are_no_windows(value: object) -> None:
    of("drain", topology(bolt(conf={f"{LENGTH}duration.ms": value})))


COUNT = topology(bolt(conf={f"{LENGTH}count": 10}, code=WINDOWED))


def test_replay_is_forbidden_unless_a_mode_or_the_request_allows_it() -> None:
    now = problem([COUNT])
    assert COUNT.id in forbidden_moves(Modes(), now)
    assert forbidden_moves(Modes(), now, ["replay"]) == {}
    allowed = Modes(kinds={"t*": KindRule(forbid=("never",))})
    assert forbidden_moves(allowed, now) == {}


def test_a_mode_that_forbids_a_kind_precedes_the_request() -> None:
    now = problem([COUNT])
    assert COUNT.id in forbidden_moves(Modes(kinds={"t": KindRule(forbid=("window",))}), now, ["window", "replay"])
    first = Modes(kinds={"t": KindRule(forbid=()), "*": KindRule(forbid=KINDS)})
    assert forbidden_moves(first, now) == {}


def test_rates_are_computed_only_for_reasons() -> None:
    calls: list[object] = []

    def rates(of: object) -> dict[str, float]:
        calls.append(of)
        return {}

    forbidden_moves(Modes(), problem([topology(bolt())]), rates=rates)
    assert calls == []
    forbidden_moves(Modes(), problem([COUNT]), rates=rates)
    assert len(calls) == 1


def test_drain_policy_follows_the_kind() -> None:
    permission = permission_of(Modes(kinds={"*": KindRule(forbid=(), max_wait_s=300)}), "t-1-0", "t")
    usual_s = MoveLimits().drain_s

    def policy(topology: Topology) -> Any:
        return permission.drain_policy(permission.safety(topology))

    assert not policy(topology(bolt())).may_replay
    long = policy(topology(bolt(conf=seconds(100, 50))))
    assert long.limit_s > 150 > usual_s
    assert (long.windows, long.may_replay, long.at_once) == (True, True, False)
    assert policy(COUNT).at_once
    assert policy(stateful(bolt(code=STATEFUL), conf=REDIS)).checkpoint_s == 21
    strict = permission_of(Modes(), "t-1-0", "t")
    short = topology(bolt(conf=seconds(50, 50)))
    assert not strict.drain_policy(strict.safety(short)).may_replay


def moved_worker(of: Topology, executors: Collection[int]) -> TopologyMove:
    """Return a move of some executors to another slot; the others are in one that is unchanged."""
    old, new, stays = WorkerSlot("n1", 1), WorkerSlot("n2", 1), WorkerSlot("n1", 2)
    slot_of = tuple(0 if number in executors else 1 for number in range(of.num_executors))
    before, after = (TopologyAssignment((slot, stays), slot_of) for slot in (old, new))
    return TopologyMove(of.id, of.name, before, after, len(executors), (old,), (new,), (stays,), ())


def test_trees_are_replayed_if_their_spout_their_window_or_their_acker_restarts() -> None:
    acker = Component("__acker", "bolt", 2, (Grouping("spout"),))
    windows = Component("w", "bolt", 2, (Grouping("spout"),), conf={f"{LENGTH}count": 200, f"{SLIDING}count": 50})
    of = topology(windows, acker)
    first_of_each = [0, 2, 4]
    shares = restarted_shares(of, [moved_worker(of, first_of_each)])
    assert shares == {"spout": 0.5, "w": 0.5, "__acker": 0.5}
    assert move_safety(of, 100.0, shares).replayed == ceil(450 * 0.875)
    assert move_safety(of, 100.0).replayed == 450
    nothing_held = restarted_shares(of, [moved_worker(of, [])])
    assert move_safety(of, 100.0, nothing_held).replayed == 0


def test_only_tuples_in_restarted_windows_are_lost_without_acking() -> None:
    windows = Component("w", "bolt", 2, (Grouping("spout"),), conf={f"{LENGTH}count": 100})
    of = topology(windows, conf={"topology.acker.executors": 0})
    shares = restarted_shares(of, [moved_worker(of, [0, 1])])
    assert shares == {"spout": 1.0, "w": 0.0}
    assert move_safety(of, None, shares).lost == 0


def test_checkpoint_replays_trees_of_restarted_parts() -> None:
    of = stateful(bolt(code=STATEFUL), conf=REDIS)
    assert move_safety(of, 100.0, {"spout": 0.0, "w": 0.5, "$checkpointspout": 1.0}).replayed == 55
