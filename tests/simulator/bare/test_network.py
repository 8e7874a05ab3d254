"""Queueing networks as users describe them: faults, distributions, traces and percentiles, against theory."""

from __future__ import annotations

import heapq
from math import factorial, inf, nan

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import stdtrit

import stormwright.simulator as package
from stormwright.errors import InputError
from stormwright.simulator import (
    Deterministic,
    Empirical,
    Exponential,
    Gamma,
    HyperExponential,
    LogNormal,
    Network,
    Source,
    Station,
    TwoMoments,
)
from stormwright.simulator.network_result import NETWORK, StationResult

POISSON = Exponential(1.0)

#: Runs with other seeds, whose spread gives the tolerance: 1 of 10,000 means is further off.
RUNS, OFF = 10, stdtrit(9, 1 - 0.5e-4)


def faults_of(*arguments, **more):
    with pytest.raises(InputError) as error:
        Network(*arguments, **more)
    return {fault.path for fault in error.value.faults}


def over_runs(network, seconds, value, **more):
    """Mean of a value over runs, and its tolerance."""
    found = np.array([value(network.run(seconds, warm_up_s=seconds / 20, seed=seed, **more)) for seed in range(RUNS)])
    return found.mean(axis=0), OFF * found.std(axis=0, ddof=1) / RUNS**0.5


def near(network, seconds, value, expected, most=0.06):
    mean, tolerance = over_runs(network, seconds, value)
    assert np.all(tolerance <= most * np.asarray(expected)), "long enough to tell"
    assert np.all(np.abs(mean - expected) <= tolerance), (mean, expected, tolerance)


# Faults -------------------------------------------------------------------------------------------


def test_routes_and_sources_lead_to_existing_stations():
    stations = {"cpu": Station(POISSON, routes={"dsk": 0.5}), "disk": Station(POISSON)}
    found = faults_of(stations, [Source("cpu", POISSON), Source("net", POISSON)], jobs={"gpu": 1})
    assert found == {"$.stations.cpu.routes.dsk", "$.sources[1].station", "$.jobs.gpu"}


def test_network_without_stations_or_jobs_is_rejected():
    assert faults_of({}, Source("cpu", POISSON)) == {"$.stations", "$.sources[0].station"}
    assert faults_of({"cpu": Station(POISSON)}) == {"$"}
    assert faults_of({"cpu": Station(POISSON)}, jobs={"cpu": 0}) == {"$"}


@pytest.mark.parametrize(
    ("station", "path"),
    [
        (Station(POISSON, servers=0), "servers"),
        (Station(POISSON, servers=-1), "servers"),
        (Station(POISSON, servers=1.5), "servers"),
        (Station(POISSON, servers=True), "servers"),
        (Station(POISSON, servers=10**9), "servers"),
        (Station(POISSON, discipline="last come"), "discipline"),
        (Station(POISSON, routes={"a": 1.5}), "routes.a"),
        (Station(POISSON, routes={"a": -0.5}), "routes.a"),
        (Station(POISSON, routes={"a": nan}), "routes.a"),
        (Station(POISSON, routes={"a": 0.6, "b": 0.6}), "routes"),
        (Station(0.7), "service"),
        (Station("fast"), "service"),
        (Station(Exponential(-1.0)), "service.mean_s"),
        (Station(Exponential(nan)), "service.mean_s"),
        (Station(Exponential(inf)), "service.mean_s"),
        (Station(Exponential("1")), "service.mean_s"),
        (Station(TwoMoments(1.0, -1.0)), "service.scv"),
        (Station(Gamma(1.0, 0.0)), "service.scv"),
        (Station(LogNormal(1.0, nan)), "service.scv"),
        (Station(Gamma.erlang(1.0, 0)), "service.scv"),
        (Station(HyperExponential([1.0, 2.0], [0.5, 0.6])), "service.probabilities"),
        (Station(HyperExponential([1.0, -2.0], [0.5, 0.5])), "service.means_s[1]"),
        (Station(HyperExponential([1.0], [0.5, 0.5])), "service"),
        (Station(POISSON, routes=["b"]), "routes"),
        (Station(POISSON, routes=None), "routes"),
        (Station(POISSON, routes={"a": "0.5"}), "routes.a"),
        (Station(POISSON, routes={"a": None}), "routes.a"),
        (Station(POISSON, routes={"a": True}), "routes.a"),
        (Station(POISSON, routes={1: 0.5}), "routes.1"),
        (Station(POISSON, servers="2"), "servers"),
        (Station(Exponential), "service"),
        (Station(HyperExponential), "service"),
        (Station(Empirical([])), "service.samples_s"),
        (Station(Empirical([1.0, nan, -1.0])), "service.samples_s[1]"),
    ],
)
def test_impossible_stations_are_rejected(station, path):
    found = faults_of({"a": station, "b": Station(POISSON)}, Source("a", POISSON))
    assert found == {f"$.stations.a.{path}"}


@pytest.mark.parametrize(
    ("arrivals", "path"),
    [
        (Exponential(0.0), ""),
        (Exponential(-1.0), ".mean_s"),
        (Exponential(nan), ".mean_s"),
        ([], ""),
        ([[1.0]], ""),
        ([1.0, nan], "[1]"),
        ([-1.0, 1.0], "[0]"),
        ([1.0, inf], "[1]"),
        ([2.0, 3.0, 1.0], "[2]"),
        ("daily", ""),
        (7, ""),
    ],
)
def test_impossible_arrivals_are_rejected(arrivals, path):
    assert faults_of({"a": Station(POISSON)}, Source("a", arrivals)) == {f"$.sources[0].arrivals{path}"}


def test_negative_distributions_of_scipy_are_rejected():
    from scipy import stats

    assert faults_of({"a": Station(stats.norm(1.0, 1.0))}, Source("a", POISSON)) == {"$.stations.a.service"}


@pytest.mark.parametrize("name", ["expon", "gamma"])
def test_distributions_of_scipy_without_parameters_are_rejected(name):
    from scipy import stats

    of = getattr(stats, name)
    found = faults_of({"a": Station(of)}, Source("a", of))
    assert found == {"$.stations.a.service", "$.sources[0].arrivals"}


def test_negative_samples_of_custom_distributions_are_rejected():
    class Late:
        """Its first samples are times, later ones are not."""

        mean_s = 1.0
        sampled = 0

        def faults(self, path):
            return iter(())

        def draw(self, random, count):
            self.sampled += count
            return np.full(count, 1.0 if self.sampled < 5_000 else -1.0)

    network = Network({"a": Station(Late())}, Source("a", Exponential(2.0)))
    with pytest.raises(InputError) as error:
        network.run(50_000)
    assert [fault.path for fault in error.value.faults] == ["$.stations.a.service[0]"]


@pytest.mark.parametrize("seconds", [0.0, -1.0, nan, inf, "3", None, True])
def test_impossible_durations_are_rejected(seconds):
    network = Network({"a": Station(POISSON)}, jobs={"a": 1})
    with pytest.raises(InputError) as error:
        network.run(seconds, warm_up_s=-1.0)
    assert [fault.path for fault in error.value.faults] == ["seconds", "warm_up_s"]


def test_other_values_than_stations_and_sources_are_rejected():
    assert faults_of([Station(POISSON)], Source("a", POISSON)) == {"$.stations"}
    assert faults_of({"a": 1, "b": Station(POISSON)}, [POISSON]) == {"$.stations.a", "$.sources[0]"}


def test_sources_and_jobs_of_other_types_are_rejected():
    stations = {"a": Station(POISSON)}
    assert faults_of(stations, None) == {"$.sources"}
    assert faults_of(stations, 3, jobs=["a"]) == {"$.sources", "$.jobs"}
    assert faults_of(stations, jobs={"a": "2"}) == {"$.jobs.a"}
    assert faults_of(stations, Source(["a"], POISSON)) == {"$.sources[0].station"}
    assert faults_of({1: Station(POISSON)}, Source("a", POISSON)) == {"$.stations.1"}


def test_name_of_the_whole_network_is_rejected():
    assert faults_of({NETWORK: Station(POISSON)}, Source(NETWORK, POISSON)) == {f"$.stations.{NETWORK}"}


@pytest.mark.parametrize("seed", [-1, 0.5, None, "1"])
def test_impossible_seeds_are_rejected(seed):
    with pytest.raises(InputError) as error:
        Network({"a": Station(POISSON)}, jobs={"a": 1}).run(1.0, seed=seed)
    assert [fault.path for fault in error.value.faults] == ["seed"]


@pytest.mark.parametrize("time_s", [nan, 1.0, "3", None])
def test_time_does_not_go_back(time_s):
    run = Network({"a": Station(POISSON)}, jobs={"a": 1}).start()
    run.until(2.0)
    with pytest.raises(InputError):
        run.until(time_s)


def test_all_public_names_exist():
    assert set(package.__all__) <= set(dir(package))
    assert {getattr(package, name).__name__ for name in package.__all__} == set(package.__all__)


# Theory -------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_quantiles_of_mm1_stays_are_exponential():
    """The stay in M/M/1, first come, first served, is exponential with the rate μ - λ."""
    network = Network({"a": Station(Exponential(0.7))}, Source("a", POISSON))
    stay_s = 1 / (1 / 0.7 - 1)
    expected = [stay_s, *(-stay_s * np.log(1 - part) for part in (0.5, 0.95, 0.99))]
    near(network, 300_000, lambda found: [found["a"].stay_s, *quantiles(found["a"])], expected)


def quantiles(row):
    return row.p50_s, row.p95_s, row.p99_s


@pytest.mark.long
@pytest.mark.parametrize("servers", [2, 5])
def test_mmc_matches_erlang_c(servers):
    load, offered = 0.8, 0.8 * servers
    network = Network({"a": Station(Exponential(offered), servers=servers)}, Source("a", POISSON))
    last = offered**servers / factorial(servers) / (1 - load)
    waits = last / (sum(offered**k / factorial(k) for k in range(servers)) + last)
    stay_s = offered + waits * offered / servers / (1 - load)
    near(network, 150_000, lambda found: [found["a"].stay_s, found["a"].utilisation], [stay_s, load])


def services():
    from scipy import stats

    samples = np.array([0.1, 0.2, 0.2, 1.5, 0.3])
    return {
        "Erlang": (Gamma.erlang(0.6, 4), 0.25),
        "gamma": (Gamma(0.6, 3.0), 3.0),
        "lognormal": (LogNormal(0.6, 2.0), 2.0),
        "constant": (Deterministic(0.6), 0.0),
        "hyperexponential": (HyperExponential([0.2, 1.4], [2 / 3, 1 / 3]), None),
        "two moments": (TwoMoments(0.6, 2.5), 2.5),
        "empirical": (Empirical(samples), samples.var() / samples.mean() ** 2),
        "Weibull of SciPy": (stats.weibull_min(1.5, scale=0.6), None),
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", services())
def test_mg1_matches_pollaczek_khinchine(name):
    service, scv = services()[name]
    if name == "hyperexponential":  # E[S²] is the mean of 2 m²
        scv = 2 * (2 / 3 * 0.2**2 + 1 / 3 * 1.4**2) / 0.6**2 - 1
    elif scv is None:
        scv = service.var() / service.mean() ** 2
    mean_s = service.mean() if name.endswith("SciPy") else service.mean_s
    stay_s = mean_s + mean_s**2 * (1 + scv) / 2 / (1 - mean_s)
    network = Network({"a": Station(service)}, Source("a", POISSON))
    near(network, 300_000, lambda found: [found["a"].stay_s, found["a"].jobs], [stay_s, stay_s])


@pytest.mark.long
@pytest.mark.parametrize("phases", [1, 3])
def test_gm1_stays_are_exponential(phases):
    """In G/M/1 the stay is exponential with the rate μ (1 - σ), where σ = A*(μ (1 - σ)) of Erlang's arrivals."""
    rate, service_rate = float(phases), 1 / 0.75
    sigma = brentq(lambda x: (rate / (rate + service_rate * (1 - x))) ** phases - x, 0.0, 1 - 1e-6)
    stay_s = 1 / (service_rate * (1 - sigma))
    network = Network({"a": Station(Exponential(0.75))}, Source("a", Gamma.erlang(1.0, phases)))
    near(network, 200_000, lambda found: [found["a"].stay_s, found["a"].p95_s], [stay_s, stay_s * np.log(20)])


@pytest.mark.slow
def test_jackson_network_has_product_form():
    """Three stations with feedback and two sources: each as if it were alone, at the rates of the traffic equations."""
    routes = np.array([[0.0, 0.5, 0.3], [0.2, 0.0, 0.5], [0.1, 0.0, 0.0]])
    arrivals, service_s, servers = np.array([0.4, 0.2, 0.0]), np.array([1.0, 1.2, 2.2]), np.array([1, 1, 2])
    names = "abc"
    network = Network(
        {
            name: Station(Exponential(service_s[n]), int(servers[n]), routes=dict(zip(names, routes[n], strict=True)))
            for n, name in enumerate(names)
        },
        [Source("a", Exponential(1 / 0.4)), Source("b", Exponential(1 / 0.2))],
    )
    rates = np.linalg.solve(np.eye(3) - routes.T, arrivals)
    expected = []
    for rate, each_s, count in zip(rates, service_s, servers, strict=True):
        offered, load = rate * each_s, rate * each_s / count
        last = offered**count / factorial(count) / (1 - load)
        waits = last / (sum(offered**k / factorial(k) for k in range(count)) + last)
        expected.append(offered + waits * load / (1 - load))
    assert max(rates * service_s / servers) < 0.95
    near(network, 150_000, lambda found: [found[name].jobs for name in names], expected)
    near(network, 150_000, lambda found: found[NETWORK].stay_s, sum(expected) / arrivals.sum())


@pytest.mark.long
def test_intervals_cover_the_mean_about_as_often_as_they_claim():
    network = Network({"a": Station(Exponential(0.5))}, Source("a", POISSON))
    rows = [network.run(20_000, warm_up_s=100, seed=seed)["a"] for seed in range(100)]
    covered = sum(abs(row.stay_s - 1.0) <= row.stay_error_s for row in rows)
    assert 85 <= covered <= 100, "a binomial number with p = 0.95 is outside of this in 1 of 10,000 cases"


# Traces -------------------------------------------------------------------------------------------


def departures(arrivals, services, servers):
    """Times of departure from G/G/c, first come, first served, in plain Python."""
    free, found = [0.0] * servers, []
    for arrival, service in zip(arrivals, services, strict=True):
        begin = max(arrival, heapq.heappop(free))
        heapq.heappush(free, begin + service)
        found.append(begin + service)
    return np.array(found)


@pytest.mark.parametrize("servers", [1, 3])
def test_trace_of_arrivals_is_replayed_exactly(servers):
    arrivals = np.sort(np.random.default_rng(5).uniform(0, 1_000, 3_000))
    network = Network({"a": Station(Deterministic(0.3 * servers), servers)}, Source("a", arrivals))
    found = network.run(2_000)
    stays = departures(arrivals, np.full(3_000, 0.3 * servers), servers) - arrivals
    assert found.stays_s["a"] == pytest.approx(stays, abs=1e-9), "constant services end in the order of arrivals"
    assert found["a"].jobs_per_s == 1.5
    assert found.quantile_s(0.95) == pytest.approx(np.quantile(stays, 0.95))


def test_nothing_happens_after_a_trace():
    run = Network({"a": Station(Deterministic(1.0))}, Source("a", [1.0, 1.0, 5.0])).start(events=True)
    run.until()
    assert (run.hops, run.now_s) == (3, 6.0)
    jobs_one_by_one = Network({"a": Station(Deterministic(1.0))}, Source("a", [1.0, 1.0, 5.0])).start()
    jobs_one_by_one.until()
    assert jobs_one_by_one.recursive
    assert (jobs_one_by_one.hops, jobs_one_by_one.now_s) == (3, 6.0)
    assert jobs_one_by_one.take().served == pytest.approx(run.take().served)


def test_totals_of_intervals_are_equal_by_events_and_recursively():
    """Each interval differs by the jobs inside at its ends; by plain arithmetic the total is that of all stays."""
    arrivals = np.sort(np.random.default_rng(5).uniform(0, 100, 150))
    network = Network({"a": Station(Deterministic(0.6))}, Source("a", arrivals))
    total_s = float((departures(arrivals, np.full(150, 0.6), 1) - arrivals).sum())
    for events in (False, True):
        run, stays_s, services, begin_s = network.start(events=events), 0.0, 0.0, 0.0
        for end_s in (25.0, 25.0, 50.0, 75.0, inf):
            run.until(end_s)
            found, seconds, begin_s = run.take(), run.now_s - begin_s, run.now_s
            stays_s, services = stays_s + found.inside[0] * seconds, services + found.served[0] * seconds
        assert (stays_s, services) == pytest.approx((total_s, 150))


@pytest.mark.parametrize("events", [False, True])
def test_no_time_has_no_means(events):
    run = Network({"a": Station(Deterministic(1.0))}, Source("a", [0.0, 0.0])).start(events=events)
    run.until(0.0)
    assert run.take().inside.tolist() == [0.0]
    run.until()
    assert run.take().inside.tolist() == [1.5], "the stays are 1 s and 2 s, in 2 s"


def test_same_seed_gives_same_result():
    network = Network({"a": Station(LogNormal(0.5, 2.0))}, Source("a", Gamma(1.0, 2.0)))
    one, same, other = (network.run(1_000, seed=seed).stays_s["a"].tolist() for seed in (1, 1, 2))
    assert one == same != other


def test_zero_services_in_a_closed_loop_can_be_limited_by_hops():
    run = Network({"a": Station(Deterministic(0.0), routes={"a": 1.0})}, jobs={"a": 1}).start()
    run.until(1.0, hops=1_000_000)
    assert (run.hops, run.now_s) == (1_000_000, 0.0)


@pytest.mark.parametrize(
    ("routes", "paths"),
    [
        ({"a": {"b": 1.0}, "b": {"a": 1.0}}, ["$.stations.a", "$.stations.b"]),
        ({"a": {"a": 1.0}, "c": {"a": 1.0}}, ["$.stations.a"]),
        ({"a": {"b": 1.0}, "b": {"a": 0.9}}, []),
        ({"a": {"b": 1.0}, "b": {"a": 0.5, "c": 0.5}, "c": {"a": 1.0}}, []),
    ],
)
def test_jobs_that_go_round_in_no_time_are_rejected(routes, paths):
    """Of a and b services take no time, of c some."""
    stations = {name: Station(Deterministic(float(name == "c")), routes=routes.get(name, {})) for name in "abc"}
    network = Network(stations, jobs={"a": 1})
    if not paths:
        assert network.run(10.0).services > 0
        return
    with pytest.raises(InputError) as error:
        network.run(10.0)
    assert [fault.path for fault in error.value.faults] == paths


# Result -------------------------------------------------------------------------------------------


def test_result_is_a_sequence_and_a_frame():
    network = Network(
        {"a": Station(POISSON, 2, routes={"b": 0.5}), "b": Station(Exponential(0.5))}, Source("a", POISSON)
    )
    found = network.run(1_000)
    assert [row.station for row in found] == ["a", "b", NETWORK]
    assert len(found) == 3
    assert isinstance(found["b"], StationResult)
    assert (found[0], found[-1]) == (found["a"], found[NETWORK])
    with pytest.raises(IndexError):
        _ = found[3]
    with pytest.raises(KeyError):
        _ = found["c"]
    frame = found.to_frame()
    assert frame["station"].tolist() == ["a", "b", NETWORK]
    assert frame["jobs"].tolist() == [row.jobs for row in found]
    assert found.to_frame("arrow").column_names == frame.columns.tolist()
    lines = repr(found).splitlines()
    assert [line.split()[0] for line in lines[2:]] == ["a", "b", NETWORK]
    assert found._repr_html_().count("<tr>") == 4
