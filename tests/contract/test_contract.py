"""Every registered scheduler under the contract, a class for each and for each way to set it that matters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from stormwright.schedulers import make_scheduler, scheduler_names
from stormwright.schedulers.toolkit.registry import traits_of
from tests.contract.suite import SchedulerContract


@dataclass(frozen=True)
class Way:
    """A way to set a scheduler.

    Parameters
    ----------
    title
        Ends the name of its class.
    settings
        Parameters; of those that search, few steps, so that the tests are fast.
    promises
        Attributes of `SchedulerContract`, where they are not those of most.
    """

    title: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    promises: Mapping[str, bool] = field(default_factory=dict)


#: They place what waits and move nothing; ties go by position, so the order of supervisors has an influence.
OF_MOST = {"never_moves": True}

MAY_MOVE = {"never_moves": False}

#: The schedulers that are not tested with their defaults alone, or that promise something else than most.
WAYS: Mapping[str, Sequence[Way]] = {
    # Storm's own looks at neither load nor limits, and at ids everywhere.
    "even": [
        Way(promises={"all_or_nothing": False, "ignores_names": False, "ignores_order_of_supervisors": True}),
    ],
    "online": [
        Way(promises=MAY_MOVE),
        Way("ThatKeepsWhatRuns", {"keep_running": True}, MAY_MOVE),
        Way("WithNarrowWishes", {"alpha": 0, "beta": 0, "gamma": 1, "delta": 0}, MAY_MOVE),
        Way("AsItsAuthorsMeanIt", {"variant": "authors"}, MAY_MOVE),
    ],
    "offline": [Way(), Way("OnFewNodes", {"alpha": 1, "beta": 0, "epsilon": 1})],
    "annealing": [
        Way(settings={"sweeps": 10}),
        Way("ThatMovesWhatRuns", {"sweeps": 10, "move_running": True}, MAY_MOVE),
    ],
    "ant_colony": [
        Way(settings={"ants": 4, "iterations": 4}),
        Way("FromRandomStart", {"ants": 4, "iterations": 4, "start": "random"}),
        Way("ThatMovesWhatRuns", {"ants": 4, "iterations": 4, "move_running": True}, MAY_MOVE),
    ],
    "genetic": [
        Way(settings={"generations": 10}),
        Way("FromRandomStart", {"generations": 10, "start": "random"}),
        Way("ThatMovesWhatRuns", {"generations": 10, "move_running": True}, MAY_MOVE),
    ],
    # Its CPU limit is soft, as in its paper.
    "learned": [Way(settings={"variants": 4})],
    "n_version": [
        Way(settings={"schedulers": "online,metis,binpack,r_storm"}, promises=MAY_MOVE),
        # One of them goes by ids, and keeps no limits by itself.
        Way(
            "OfAnySchedulers",
            {"schedulers": "even,optimizer,spread", "settings": "optimizer.iterations=2000"},
            {**MAY_MOVE, "ignores_names": False},
        ),
        Way("ThatKeepsWhatRuns", {"schedulers": "binpack,offline,t_storm", "keep_running": True}),
    ],
    "r_storm": [
        Way(promises={"keeps_limits": False}),
        Way("WithHardCpu", {"soft_cpu": False, "units": "raw"}),
    ],
    "metis": [
        Way(),
        Way("BySupervisor", {"part": "supervisor"}),
        Way("OfItsAuthors", {"variant": "authors"}),
    ],
    "top_storm": [Way(), Way("ByItsTableAndStreams", {"most": "table", "traffic": "dag"})],
    # A number of steps instead of a clock, so that it gives the same answer each time.
    "optimizer": [
        Way(title, {"iterations": 2000, **settings}, MAY_MOVE)
        for title, settings in {
            "": {},
            "NearWhatRuns": {"max_moves": 2, "move_price": 0.1},
            "ThatRestartsFew": {"max_restarts": 2, "restart_price": 0.1},
            "ThatWeighsNodes": {"node_price": 3.0, "imbalance_price": 5.0},
        }.items()
    ],
}


def contract_of(name: str, way: Way) -> type[SchedulerContract]:
    """The contract for a scheduler that is set in one way; what its class declares, it promises."""
    title = "".join(part.capitalize() for part in name.split("_"))
    traits = traits_of(name)
    declared = {
        "keeps_limits": traits.heeds_limits,
        "ignores_order_of_topologies": not traits.takes_turns,
    }
    members = {
        "__module__": __name__,
        "make": lambda _: make_scheduler(name, way.settings),
        # What it answers to a problem that several tests share is asked once a process.
        "pytestmark": pytest.mark.xdist_group(f"{name} {way.title}".strip()),
        **OF_MOST,
        **declared,
        **way.promises,
    }
    return type(f"Test{title}{way.title}", (SchedulerContract,), members)


for _name in scheduler_names():
    for _way in WAYS.get(_name, [Way()]):
        _contract = contract_of(_name, _way)
        globals()[_contract.__name__] = _contract
del _contract  # pytest would run the last one twice


def test_contract_table_lists_only_existing_schedulers():
    assert set(WAYS) <= set(scheduler_names())
