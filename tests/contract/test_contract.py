"""Every registered scheduler under the contract."""

from __future__ import annotations

from stormwright.schedulers import make_scheduler
from stormwright.schedulers.kit.registry import SCHEDULERS
from tests.contract.suite import SchedulerContract


class TestEven(SchedulerContract):
    """Storm's own: it looks at neither load nor limits, and at names everywhere."""

    keeps_limits = False
    all_or_nothing = False
    ignores_names = False
    ignores_order_of_supervisors = True
    never_moves = True

    def make(self):
        return make_scheduler("even")


class TestOnline(SchedulerContract):
    """Ties go by position, so the order of supervisors has an influence and names have none."""

    def make(self):
        return make_scheduler("online")


class TestOnlineThatKeepsWhatRuns(SchedulerContract):
    """The same, told to leave alone what runs."""

    def make(self):
        return make_scheduler("online", {"keep_running": True})


class TestOnlineWithNarrowWishes(SchedulerContract):
    """The same, with the other end of every range."""

    def make(self):
        return make_scheduler("online", {"alpha": 0, "beta": 0, "gamma": 1, "delta": 0})


class TestOffline(SchedulerContract):
    """It places what waits and moves nothing."""

    never_moves = True

    def make(self):
        return make_scheduler("offline")


class TestOfflineOnFewNodes(SchedulerContract):
    """The same, with the other end of every range."""

    never_moves = True

    def make(self):
        return make_scheduler("offline", {"alpha": 1, "beta": 0, "epsilon": 1})


class TestTopStorm(SchedulerContract):
    """It places what waits and moves nothing."""

    never_moves = True

    def make(self):
        return make_scheduler("top_storm")


class TestTagAware(SchedulerContract):
    """Without tags in the problem, all is one group."""

    never_moves = True

    def make(self):
        return make_scheduler("tag_aware")


class TestBinpack(SchedulerContract):
    """It places what waits and moves nothing."""

    never_moves = True

    def make(self):
        return make_scheduler("binpack")


class TestCostAware(SchedulerContract):
    """It places what waits and moves nothing."""

    never_moves = True

    def make(self):
        return make_scheduler("cost_aware")


class TestDynamicWeightedRoundRobin(SchedulerContract):
    """It places what waits and moves nothing."""

    never_moves = True

    def make(self):
        return make_scheduler("dynamic_weighted_round_robin")


class TestLeastExecutors(SchedulerContract):
    """It places what waits and moves nothing."""

    never_moves = True

    def make(self):
        return make_scheduler("least_executors")


class TestNearestAverageLoad(SchedulerContract):
    """It places what waits and moves nothing."""

    never_moves = True

    def make(self):
        return make_scheduler("nearest_average_load")


class TestPredictive(SchedulerContract):
    """It places what waits and moves nothing."""

    never_moves = True

    def make(self):
        return make_scheduler("predictive")


class TestRandom(SchedulerContract):
    """It places what waits and moves nothing."""

    never_moves = True

    def make(self):
        return make_scheduler("random")


class TestRoundRobin(SchedulerContract):
    """It places what waits and moves nothing."""

    never_moves = True

    def make(self):
        return make_scheduler("round_robin")


class TestSpread(SchedulerContract):
    """It places what waits and moves nothing."""

    never_moves = True

    def make(self):
        return make_scheduler("spread")


class TestWeightedRoundRobin(SchedulerContract):
    """It places what waits and moves nothing."""

    never_moves = True

    def make(self):
        return make_scheduler("weighted_round_robin")


class TestAnnealing(SchedulerContract):
    """With few steps, so that the tests are fast."""

    never_moves = True

    def make(self):
        return make_scheduler("annealing", {"sweeps": 10})


class TestAnnealingThatMovesWhatRuns(SchedulerContract):
    """The same, told to move what runs where that is better."""

    def make(self):
        return make_scheduler("annealing", {"sweeps": 10, "move_running": True})


class TestAntColony(SchedulerContract):
    """With few steps, so that the tests are fast."""

    never_moves = True

    def make(self):
        return make_scheduler("ant_colony", {"ants": 4, "iterations": 4})


class TestAntColonyThatMovesWhatRuns(SchedulerContract):
    """The same, told to move what runs where that is better."""

    def make(self):
        return make_scheduler("ant_colony", {"ants": 4, "iterations": 4, "move_running": True})


class TestGenetic(SchedulerContract):
    """With few steps, so that the tests are fast."""

    never_moves = True

    def make(self):
        return make_scheduler("genetic", {"generations": 10})


class TestGeneticThatMovesWhatRuns(SchedulerContract):
    """The same, told to move what runs where that is better."""

    def make(self):
        return make_scheduler("genetic", {"generations": 10, "move_running": True})


class TestRStorm(SchedulerContract):
    """Its CPU limit is soft, as in its paper; it places what waits and moves nothing."""

    keeps_limits = False
    never_moves = True

    def make(self):
        return make_scheduler("r_storm")


class TestRStormWithHardCpu(SchedulerContract):
    """The same, with CPU as hard as memory, and in raw units."""

    never_moves = True

    def make(self):
        return make_scheduler("r_storm", {"soft_cpu": False, "units": "raw"})


class TestTStorm(SchedulerContract):
    """It places what waits and moves nothing."""

    never_moves = True

    def make(self):
        return make_scheduler("t_storm")


class TestDStorm(SchedulerContract):
    """It places what waits and moves nothing."""

    never_moves = True

    def make(self):
        return make_scheduler("d_storm")


class TestToss(SchedulerContract):
    """It places what waits and moves nothing."""

    never_moves = True

    def make(self):
        return make_scheduler("toss")


class TestPScheduler(SchedulerContract):
    """It places what waits and moves nothing."""

    never_moves = True

    def make(self):
        return make_scheduler("p_scheduler")


class TestMetis(SchedulerContract):
    """It places what waits and moves nothing."""

    never_moves = True

    def make(self):
        return make_scheduler("metis")


class TestMetisByCut(SchedulerContract):
    """The same, minimising what is exchanged between workers."""

    never_moves = True

    def make(self):
        return make_scheduler("metis", {"objective": "cut"})


class TestOptimizer(SchedulerContract):
    """With a number of steps instead of a clock, so that it gives the same answer each time."""

    def make(self):
        return make_scheduler("optimizer", {"iterations": 2000})


class TestOptimizerNearWhatRuns(SchedulerContract):
    """The same, told to move few executors."""

    def make(self):
        return make_scheduler("optimizer", {"iterations": 2000, "max_moves": 2, "move_price": 0.1})


class TestOptimizerThatRestartsFew(SchedulerContract):
    """The same, told to restart few workers."""

    def make(self):
        return make_scheduler("optimizer", {"iterations": 2000, "max_restarts": 2, "restart_price": 0.1})


class TestOptimizerThatWeighsNodes(SchedulerContract):
    """The same, with prices for nodes in use and for uneven use of CPU."""

    def make(self):
        return make_scheduler("optimizer", {"iterations": 2000, "node_price": 3.0, "imbalance_price": 5.0})


def test_every_registered_scheduler_is_here():
    assert set(SCHEDULERS) == {
        "annealing",
        "ant_colony",
        "binpack",
        "cost_aware",
        "d_storm",
        "dynamic_weighted_round_robin",
        "even",
        "genetic",
        "least_executors",
        "metis",
        "nearest_average_load",
        "offline",
        "online",
        "optimizer",
        "p_scheduler",
        "predictive",
        "r_storm",
        "random",
        "round_robin",
        "spread",
        "t_storm",
        "tag_aware",
        "top_storm",
        "toss",
        "weighted_round_robin",
    }
