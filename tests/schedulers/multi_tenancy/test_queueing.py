"""Order, backfill and limits of users around every scheduler."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from time import thread_time

import numpy as np
import pytest
from hypothesis import strategies as st

from stormwright.model import UNPLACED, Assignment, Component, Problem, Unplaced, default_executor_runs, violations
from stormwright.model.constraints.users import UserLimitExceeded
from stormwright.model.tenancy_config import USERS
from stormwright.schedulers import make_scheduler
from stormwright.schedulers.toolkit.from_scratch import FromScratchScheduler
from stormwright.schedulers.toolkit.multi_tenancy import MultiTenantScheduler
from stormwright.schedulers.toolkit.params import NoParams
from stormwright.schedulers.toolkit.registry import SCHEDULERS
from stormwright.schedulers.toolkit.traits import Traits
from stormwright.testing.shared import for_any
from stormwright.testing.strategies import problems
from tests.examples import examples
from tests.schedulers.builders import load, nodes, problem, running, topology
from tests.schedulers.test_honours import SETTINGS

#: Each as users may set it.
ORDERS = ("priority", "first_come", "shortest_first", "fair_share", "pools", "given")

FEW = examples(12)


@st.composite
def of_users(draw, *, runs: bool = True) -> Problem:
    """Topologies of two users with priorities; limits of users that some are beyond."""
    of = draw(problems(flows=False, running=runs, max_topologies=5))
    owners = draw(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 3)), min_size=5, max_size=5))
    topologies = tuple(
        replace(t, owner=user, conf={**t.conf, "topology.priority": priority})
        for t, (user, priority) in zip(of.topologies, owners, strict=False)
    )
    most = st.fixed_dictionaries(
        {},
        optional={
            "executors": st.integers(0, 20),
            "slots": st.integers(0, 6),
            "cpu": st.integers(0, 300),
            "memory": st.integers(0, 4000),
        },
    )
    limits = draw(st.fixed_dictionaries({}, optional={"a": most, "*": most}))
    return replace(of, topologies=topologies, conf={**of.conf, USERS: limits})


def make(name: str, **given):
    return make_scheduler(name, {**SETTINGS.get(name, {}), **given})


def has(of: Problem, slots: np.ndarray, started: bool) -> dict[str, dict[str, float]]:
    """What users have, counted one by one; only of users with a topology that did not run before, if `started`."""
    found: dict[str, dict[str, float]] = {}
    new = set()
    for index, t in enumerate(of.topologies):
        own = of.executors_of(index)
        there = np.flatnonzero(slots[own] != UNPLACED) + own.start
        if len(there) and np.all(of.current_slot[own] == UNPLACED):
            new.add(t.owner)
        sums = found.setdefault(t.owner, defaultdict(float))
        sums["executors"] += len(there)
        sums["slots"] += len({int(slot) for slot in slots[there]})
        sums["cpu"] += sum(float(of.executor_cpu_hz[e]) for e in there) / of.core_hz * 100
        sums["memory"] += sum(float(of.executor_memory_mb[e]) for e in there)
    return {user: sums for user, sums in found.items() if user in new or not started}


def within(of: Problem, slots: np.ndarray, *, started: bool = True) -> bool:
    limits = of.conf[USERS]
    return all(
        used <= {**limits.get("*", {}), **limits.get(user, {})}.get(name, np.inf) * (1 + 1e-6)
        for user, sums in has(of, slots, started).items()
        for name, used in sums.items()
    )


@pytest.mark.parametrize("name", SCHEDULERS)
@for_any(FEW, of=of_users(), order=st.sampled_from(ORDERS), backfill=st.booleans())
def test_no_scheduler_gives_a_user_more_than_he_may_have(name, of, order, backfill):
    answer = make(name, order=order, backfill=backfill).schedule(of)
    slots = answer.slot_of_executor
    assert within(of, slots)
    assert not any(isinstance(each, UserLimitExceeded) for each in violations(of, slots))
    assert np.all(slots[of.current_slot != UNPLACED] != UNPLACED)
    assert len(answer.unplaced) == np.count_nonzero(slots == UNPLACED)
    left_out = {each.topology for each in answer.unplaced}
    assert all(any(char.isdigit() for char in why) for each in answer.unplaced for why in each.reasons)
    assert left_out <= set(answer.status)
    from_scratch = FromScratchScheduler(make(name, order=order, backfill=backfill)).schedule(of)
    assert within(of, from_scratch.slot_of_executor, started=False)


@pytest.mark.parametrize("name", SCHEDULERS)
@for_any(FEW, of=of_users(runs=False))
def test_placed_topologies_form_a_queue_prefix_without_backfill(name, of):
    """Without backfill and limits, what is placed is the front of the queue."""
    of = replace(of, conf={})
    slots = make(name, order="priority", backfill=False).schedule(of).slot_of_executor
    priority = [t.conf["topology.priority"] for t in of.topologies]
    front = sorted(range(len(priority)), key=lambda index: priority[index])
    placed = [bool(np.all(slots[of.executors_of(index)] != UNPLACED)) for index in front]
    assert placed == sorted(placed, reverse=True)
    anything = [bool(np.any(slots[of.executors_of(index)] != UNPLACED)) for index in front]
    assert name == "even" or anything == placed


@pytest.mark.slow
@pytest.mark.parametrize("name", SCHEDULERS)
@for_any(FEW, of=of_users(runs=False))
def test_unplaced_topology_has_no_room_beside_more_urgent_ones(name, of):
    """With backfill: given those ahead that are placed and this one alone, the scheduler finds no room either."""
    of = replace(of, conf={})
    slots = make(name, order="priority").schedule(of).slot_of_executor
    priority = [t.conf["topology.priority"] for t in of.topologies]
    front = sorted(range(len(priority)), key=lambda index: priority[index])
    holds = {index: bool(np.all(slots[of.executors_of(index)] != UNPLACED)) for index in front}
    for place, index in enumerate(front):
        if not holds[index] and any(holds[later] for later in front[place + 1 :]):
            ahead = tuple(of.topologies[each] for each in front[:place] if holds[each])
            alone = replace(of, topologies=(*ahead, of.topologies[index]))
            assert np.any(make(name).schedule(alone).slot_of_executor == UNPLACED)


@pytest.mark.parametrize("name", SCHEDULERS)
def test_equal_topologies_are_never_inverted(name):
    """Eight alike in room for three: the three most urgent are in, wherever they stand."""
    priorities = [7, 3, 5, 0, 6, 1, 4, 2]
    alike = [(topology(f"t{n}", 2, 1, **{"topology.priority": p}), load(2)) for n, p in enumerate(priorities)]
    of = problem(nodes(1, 1, 1, ports=1), *alike)
    slots = make(name, order="priority").schedule(of).slot_of_executor
    placed = {priorities[index] for index in range(8) if np.all(slots[of.executors_of(index)] != UNPLACED)}
    assert placed == {0, 1, 2}


@pytest.mark.parametrize("name", ["online", "optimizer", "even", "binpack", "tag_aware"])
def test_backfill_places_a_small_topology_ahead_of_a_blocked_one(name):
    large = topology("large", 4, 4, **{"topology.priority": 0}), load(4)
    small = topology("small", 1, 1), load(1)
    of = problem(nodes(1, 1, ports=1), large, small)
    if name == "even":  # it places in fewer workers whatever finds any
        of = problem(nodes(1, 1, ports=0), large, small)
    waits = make(name, order="priority", backfill=False).schedule(of)
    assert {each.topology for each in waits.unplaced} == {"large", "small"}
    if name != "even":
        assert waits.status["small"] == f"{name}: waits behind 1 topology, the first of them large"
        ahead = make(name, order="priority").schedule(of)
        assert {each.topology for each in ahead.unplaced} == {"large"}


@pytest.mark.parametrize("name", ["online", "optimizer", "spread"])
def test_limit_status_includes_limit_amount_and_remedy(name):
    of = problem(
        nodes(9, 9), *((replace(topology(f"t{n}", 4, 1), owner="ann"), load(4)) for n in range(3)), core_hz=1e9
    )
    of = replace(of, conf={USERS: {"ann": {"executors": 8, "cpu": 100}}})
    answer = make(name).schedule(of)
    assert answer.status == {
        "t2": f'{name}: user "ann" would have 12 of 8 executors with it: make it smaller, kill another, or raise '
        'stormwright.users; user "ann" would have 120 of 100 % of CPU with it: make it smaller, kill another, or raise '
        "stormwright.users"
    }


@pytest.mark.parametrize(("owner", "who"), [("ann", 'user "ann"'), ("", "topologies of no user")])
def test_status_names_the_option_that_blocks_the_topology(owner, who):
    of = problem(nodes(9), (replace(topology("t", 4, 3), owner=owner), load(4)), conf={USERS: {"*": {"slots": 9}}})
    answer = make("spread", user_slots=2).schedule(of)
    reason = f"{who} would have 3 of 2 slots with it: make it smaller, kill another, or raise user_slots"
    assert answer.status == {"t": f"spread: {reason}"}


def test_user_over_limit_does_not_block_other_users():
    placed = [(replace(topology(f"{user}{n}", 2, 1), owner=user), load(2)) for n, user in enumerate("aaba")]
    of = problem(nodes(9), *placed, conf={USERS: {"a": {"executors": 3}}})
    answer = make("online", backfill=False).schedule(of)
    assert {each.topology for each in answer.unplaced} == {"a1", "a3"}


def test_unplaced_topology_uses_none_of_its_users_limit():
    large = replace(topology("large", 4, 4), owner="a"), load(4)
    small = replace(topology("small", 2, 1), owner="a"), load(2)
    of = problem(nodes(1, ports=2), large, small, conf={USERS: {"a": {"executors": 5}}})
    answer = make("online").schedule(of)
    assert {each.topology for each in answer.unplaced} == {"large"}


def test_options_override_cluster_limits_and_named_users_override_all_users():
    placed = [(replace(topology(f"t{n}", 3, 1), owner=user), load(3)) for n, user in enumerate(("ann", "ben"))]
    of = problem(nodes(9), *placed, conf={USERS: {"*": {"executors": 2}, "ben": {"executors": 3}}})
    assert {each.topology for each in make("online").schedule(of).unplaced} == {"t0"}
    answer = make("online", user_executors=3).schedule(of)
    assert not answer.unplaced
    assert answer.parameters["user_executors"] == 3


def test_running_topology_over_limit_stays_and_regains_lost_workers():
    placed = [(replace(topology(f"t{n}", 2, 2), owner="ann"), load(2)) for n in range(2)]
    of = running(problem(nodes(9), *placed), [0, UNPLACED, UNPLACED, UNPLACED])
    of = replace(of, conf={USERS: {"ann": {"executors": 1}}})
    answer = make("online").schedule(of)
    assert {each.topology for each in answer.unplaced} == {"t1"}
    assert not violations(replace(of, topologies=of.topologies[:1]), answer.slot_of_executor[:2])


def test_exceeded_user_limit_is_a_violation():
    placed = [(replace(topology(f"t{n}", 2, 1), owner="ann"), load(2)) for n in range(2)]
    of = problem(nodes(9), *placed, conf={USERS: {"ann": {"executors": 3, "slots": 1}}})
    found = violations(of, np.array([0, 0, 1, 1], np.int32))
    assert [str(each) for each in found] == ["user ann: 4 of 3 executors", "user ann: 2 of 1 slots"]
    assert found[0].as_dict()["limit"] == "users"
    assert not violations(running(of, [0, 0, 1, 1]), np.array([0, 0, 1, 1], np.int32))


def test_scheduler_is_skipped_if_limits_forbid_every_topology():
    of = problem(nodes(9), (topology("t", 2, 1), load(2)))
    answer = make("metis", user_slots=0).schedule(of)
    assert len(answer.unplaced) == 2
    assert answer.scheduler == "metis"


class LastFirst:
    """Gives every topology one slot, the last ones first, as long as there are slots."""

    def __init__(self) -> None:
        self.calls = 0

    def schedule(self, of: Problem) -> Assignment:
        self.calls += 1
        slots = np.full(of.num_executors, UNPLACED, np.int32)
        for slot, index in zip(range(len(of.slots)), reversed(range(len(of.topologies))), strict=False):
            slots[of.executors_of(index)] = slot
        entries = [
            Unplaced(of.topologies[int(of.executor_topology[e])].id, 0, "c", ("0 slots",)) for e in range(len(slots))
        ]
        return Assignment(slots, tuple(each for each, slot in zip(entries, slots, strict=True) if slot == UNPLACED))


@pytest.mark.long
def test_reasons_for_many_unplaced_topologies_take_subquadratic_time():
    """Nimbus waits 1.5 s, of which 2,000 topologies that found no slot took 35 s."""
    of = problem(nodes(9, ports=0), *((topology(f"t{n}", 5, 1), load(5)) for n in range(2000)))
    frame = MultiTenantScheduler("last", LastFirst(), NoParams(), Traits(), {"order": "priority"})
    begun = thread_time()  # not what other work on the machine takes
    answer = frame.schedule(of)
    assert thread_time() - begun < 5.0
    assert len(answer.unplaced) == 10_000
    assert {each.reasons for each in answer.unplaced} == {("0 slots",)}


def test_topology_displaced_by_urgent_ones_has_a_reason():
    """`even` takes topologies in an order of its own: of two and one slot the second, wherever it stands."""
    placed = [(topology(f"t{n}-{n}-160", 1, 1, **{"topology.priority": 0}), load(1)) for n in range(2)]
    answer = make("even", order="priority").schedule(problem(nodes(9, ports=1), *placed))
    assert [each.topology for each in answer.unplaced] == ["t1-1-160"]
    first, *rest = answer.unplaced[0].reasons
    assert first == "no room beside 1 topology ahead of it"
    assert rest


@pytest.mark.parametrize("backfill", [True, False])
@pytest.mark.parametrize(("topologies", "ports"), [(40, 9), (40, 1), (3, 2), (12, 11), (5, 0)])
def test_scheduling_repeats_until_urgent_topologies_are_placed(topologies, ports, backfill):
    priorities = [n * 7 % topologies for n in range(topologies)]
    placed = [(topology(f"t{n}", 1, 1, **{"topology.priority": p}), load(1)) for n, p in enumerate(priorities)]
    of = problem(nodes(9, ports=ports), *placed)
    scheduler = LastFirst()
    frame = MultiTenantScheduler("last", scheduler, NoParams(), Traits(), {"order": "priority", "backfill": backfill})
    answer = frame.schedule(of)
    urgent = sorted(range(topologies), key=priorities.__getitem__)[:ports]
    assert np.flatnonzero(answer.slot_of_executor != UNPLACED).tolist() == sorted(urgent)
    assert len({slot for slot in answer.slot_of_executor.tolist() if slot != UNPLACED}) == ports
    assert scheduler.calls <= 16 + 2 * 8


def test_workers_added_by_a_scheduler_count_towards_slot_limit():
    """`tag_aware` gives a worker to each of two groups where one worker was requested."""
    parts = (Component("a", "spout", 1, tags=("x",)), Component("b", "bolt", 1, tags=("y",)))
    requesting = [replace(topology(f"t{n}", 1, 1), owner="ann", components=parts) for n in range(2)]
    placed = [(replace(t, executor_runs=default_executor_runs(parts)), load(2)) for t in requesting]
    supervisors = tuple(
        replace(node, scheduler_meta={"tags": tag}) for node, tag in zip(nodes(9, 9), "xy", strict=True)
    )
    of = problem(supervisors, *placed, conf={USERS: {"ann": {"slots": 3}}})
    answer = make("tag_aware").schedule(of)
    assert {each.topology for each in answer.unplaced} == {"t1"}
    assert "would have 4 of 3 slots" in answer.status["t1"]


def test_optimizer_opens_no_extra_workers_under_slot_limits():
    """By throughput one worker of 4 executors becomes several on nodes of one core; not where its user may have one."""
    pairs = [(0, 1, 5.0), (1, 2, 5.0), (2, 3, 5.0)]
    of = problem(nodes(*[3.0] * 4), (replace(topology("t", 4, 1), owner="ann"), load(4, pairs, cpu_ghz=0.7)))
    of = of.with_current(make_scheduler("even").schedule(of).by_topology(of))
    given = {"objective": "throughput", "iterations": 20_000}
    free = make_scheduler("optimizer", given).schedule(of)
    assert len(set(free.slot_of_executor.tolist())) > 1
    held = make_scheduler("optimizer", given).schedule(replace(of, conf={USERS: {"ann": {"slots": 1}}}))
    assert len(set(held.slot_of_executor.tolist())) == 1
