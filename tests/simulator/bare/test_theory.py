"""Queueing networks in virtual time against what theory says of them, by both twins."""

from __future__ import annotations

from math import factorial

import numpy as np
import pytest
from scipy.special import stdtrit

from stormwright.simulator import Exponential, Gamma, Network, Source, Station, TwoMoments
from tests.simulator.twins import plainly

#: What plain Python takes half a minute for is made once for all of these.
pytestmark = pytest.mark.xdist_group("theory")

#: Batches whose means say how far off the mean of all may be: 1 of 10,000 such means is further off than the tolerance.
BATCHES, OFF = 20, stdtrit(19, 1 - 0.5e-4)

#: Services in all, of the compiled functions and of plain Python.
HOPS, FEW_HOPS = 1_000_000, 4_000


def station(mean_s, varies=1.0, **more):
    return Station(TwoMoments(mean_s, varies), **more)


def single(load, servers=1, varies=1.0, **more):
    return Network({"a": station(load * servers, varies, servers=servers, **more)}, Source("a", Exponential(1.0)))


def from_a(**stations):
    return Network(stations, Source("a", Exponential(1.0)))


NETWORKS = {
    "M/M/1": single(0.7),
    "M/M/3": single(0.8, 3),
    "M/D/1": single(0.7, varies=0.0),
    "M/G/1, little varied": single(0.6, varies=0.25),
    "M/G/1, much varied": single(0.5, varies=4.0),
    "M/G/1, samples drawn in advance": Network({"a": Station(Gamma(0.5, 4.0))}, Source("a", Gamma(1.0, 1.0))),
    "PS, exponential": single(0.7, discipline="sharing"),
    "PS, constant": single(0.7, discipline="sharing", varies=0.0),
    "PS, much varied": single(0.5, discipline="sharing", varies=4.0),
    "PS, 3 cores": single(0.7, 3, discipline="sharing"),
    "tandem": from_a(a=station(0.5, routes={"b": 1.0}), b=station(0.7)),
    "feedback": from_a(a=station(0.3, routes={"a": 0.5}), b=station(0.1)),
    "closed": Network(
        {
            "a": station(1.0, routes={"b": 0.4, "c": 0.6}),
            "b": station(2.0, routes={"a": 1.0}),
            "c": station(1.5, routes={"a": 1.0}),
        },
        jobs={"a": 6},
    ),
}


def inside_mm(load, servers):
    """Mean number of jobs of M/M/c, by Erlang's formula."""
    offered = load * servers
    last = offered**servers / factorial(servers) / (1 - load)
    waits = last / (sum(offered**k / factorial(k) for k in range(servers)) + last)
    return offered + waits * load / (1 - load)


def inside_mg1(load, varies):
    """Mean number of jobs of M/G/1: Pollaczek and Khinchine."""
    return load + load**2 * (1 + varies) / 2 / (1 - load)


def inside_closed(visits, service, jobs):
    """Mean value analysis, exact: Reiser and Lavenberg."""
    inside = np.zeros(len(visits))
    for number in range(1, jobs + 1):
        stay = visits * service * (1 + inside)
        inside = number * stay / stay.sum()
    return inside


THEORY = {
    "M/M/1": [inside_mm(0.7, 1)],
    "M/M/3": [inside_mm(0.8, 3)],
    "M/D/1": [inside_mg1(0.7, 0)],
    "M/G/1, little varied": [inside_mg1(0.6, 0.25)],
    "M/G/1, much varied": [inside_mg1(0.5, 4)],
    "M/G/1, samples drawn in advance": [inside_mg1(0.5, 4)],
    # However much services vary.
    "PS, exponential": [0.7 / 0.3],
    "PS, constant": [0.7 / 0.3],
    "PS, much varied": [0.5 / 0.5],
    # As many as with servers, if services are exponential.
    "PS, 3 cores": [inside_mm(0.7, 3)],
    # Each station as if it were alone: Jackson.
    "tandem": [inside_mm(0.5, 1), inside_mm(0.7, 1)],
    "feedback": [inside_mm(0.6, 1), 0.0],
    "closed": inside_closed(np.array([1, 0.4, 0.6]), np.array([1.0, 2.0, 1.5]), 6),
}


def batches(name, hops, events=True):
    """Mean numbers of jobs at each station in every batch, after one that does not count."""
    of, found = NETWORKS[name].start(seed=7, events=events), []
    for batch in range(BATCHES + 1):
        of.until(hops=hops * (batch + 1) // BATCHES)
        found.append(of.take()[0].tolist())
    return found[1:]


def all_batches(hops):
    return {name: batches(name, hops) for name in NETWORKS}


@pytest.fixture(scope="module")
def by_plain_python():
    return plainly("tests.simulator.bare.test_theory", "all_batches", FEW_HOPS)


def check(name, found):
    found = np.array(found)
    tolerance = OFF * found.std(axis=0, ddof=1) / BATCHES**0.5
    assert np.all(np.abs(found.mean(axis=0) - THEORY[name]) <= tolerance), (found.mean(axis=0), tolerance)
    return tolerance


@pytest.mark.parametrize("name", NETWORKS)
def test_simulated_networks_match_queueing_theory(name):
    tolerance = check(name, batches(name, HOPS))
    assert np.all(tolerance <= 0.06 * np.maximum(THEORY[name], 0.1)), "long enough to tell"


@pytest.mark.long
@pytest.mark.parametrize("name", NETWORKS)
def test_pure_python_networks_match_queueing_theory(name, by_plain_python):
    check(name, by_plain_python[name])


@pytest.mark.parametrize("name", NETWORKS)
def test_both_twins_do_the_same(name, by_plain_python):
    assert batches(name, FEW_HOPS) == by_plain_python[name], "to the last digit"


def tree(**more):
    network = from_a(
        a=station(0.5, routes={"b": 0.3, "c": 0.5}),
        b=station(2.0, varies=0.0),
        c=Station(Gamma(1.0, 3.0), routes={"d": 1.0}),
        d=station(1.2),
    )
    return network.start(seed=3, **more)


def test_recursive_simulation_equals_event_simulation():
    """The same random numbers, the same times: other are only those that are inside at the end."""
    events, follows = tree(events=True), tree()
    assert (events.recursive, follows.recursive) == (False, True)
    for of in (events, follows):
        of.until(50_000.0)
    by_events, by_following = events.take(), follows.take()
    inside = events.state.stations["inside"].sum()
    assert 0 <= follows.hops - events.hops <= 4 * inside
    assert by_following.inside == pytest.approx(by_events.inside, rel=2e-3)
    assert by_following.served == pytest.approx(by_events.served, rel=1e-3)
    assert by_following.working == pytest.approx(by_events.working, rel=1e-3)


@pytest.mark.parametrize(
    "network",
    [
        single(0.5, 2),
        single(0.5, discipline="sharing"),
        from_a(a=station(0.5, routes={"a": 0.5})),
        Network({"a": station(0.3)}, [Source("a", Exponential(1.0)), Source("a", Exponential(1.0))]),
        Network({"a": station(1.0, routes={"a": 1.0})}, jobs={"a": 2}),
    ],
    ids=["two servers", "shared", "feedback", "two sources", "closed"],
)
def test_other_networks_use_event_simulation(network):
    assert not network.start().recursive


def test_a_node_makes_room_for_all_its_jobs():
    of = single(10.0, discipline="sharing").start()
    of.until(2_000.0)
    inside = of.state.stations[0]["inside"]
    assert inside == of.state.shares.cores[0]["count"] > 1_000
