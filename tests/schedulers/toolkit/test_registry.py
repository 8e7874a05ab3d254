"""Schedulers by name, ours and those of other packages."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

import stormwright
from stormwright.errors import InputError, MissingDependencyError, SchedulerError
from stormwright.schedulers import make_scheduler, parse_settings, scheduler_names
from stormwright.schedulers.toolkit import registry
from stormwright.schedulers.toolkit.multi_tenancy import MultiTenantScheduler
from stormwright.schedulers.toolkit.params import ParameterSet, Params, param
from stormwright.schedulers.toolkit.registry import check_settings, scheduler_type, traits_of, variants_of
from stormwright.schedulers.toolkit.traits import Traits
from stormwright.schedulers.toolkit.triggers import BALANCE, NODES, ONLINE, TRAFFIC, Adaptation
from stormwright.schedulers.toolkit.wrappers import IsolatingScheduler, NodeWeightScheduler

ROOT = Path(stormwright.__file__).parent


@dataclass(frozen=True, kw_only=True)
class DiceParams(Params):
    seed: int = param(0, "of the dice", low=0)


class Dice:
    """What a plugin offers."""

    params_type = DiceParams

    def __init__(self, params):
        self.params = params

    def schedule(self, problem):
        return make_scheduler("even").schedule(problem)


@pytest.fixture
def plugins(monkeypatch):
    points = [
        EntryPoint("dice", f"{__name__}:Dice", registry.ENTRY_POINT_GROUP),
        EntryPoint("even", f"{__name__}:Dice", registry.ENTRY_POINT_GROUP),
        EntryPoint("broken", "no_such_package_at_all:Scheduler", registry.ENTRY_POINT_GROUP),
    ]
    monkeypatch.setattr(registry, "entry_points", lambda group: [p for p in points if p.group == group])
    monkeypatch.setattr(EntryPoint, "load", lambda self: Dice if self.value.startswith(__name__) else _fail())


def _fail():
    raise ModuleNotFoundError("No module named 'no_such_package_at_all'")


def test_ours_are_listed():
    assert scheduler_names()[: len(registry.SCHEDULERS)] == tuple(registry.SCHEDULERS)


@pytest.mark.parametrize("name", registry.SCHEDULERS)
def test_each_scheduler_is_in_its_own_module_or_in_generic(name):
    scheduler = make_scheduler(name)
    inside = scheduler.scheduler.scheduler
    assert [type(frame) for frame in (scheduler, scheduler.scheduler)] == [MultiTenantScheduler, NodeWeightScheduler]
    assert isinstance(inside, IsolatingScheduler) == traits_of(name).heeds_limits
    rule = inside.scheduler if isinstance(inside, IsolatingScheduler) else inside
    assert type(rule).__module__.removeprefix("stormwright.schedulers.") in (name, "generic")
    assert getattr(rule, "name", name) == name
    assert scheduler.params == rule.params


def test_settings_as_texts_and_as_values():
    assert make_scheduler("online", ["alpha=0.2", "gamma = 2"]).params.gamma == 2
    assert make_scheduler("online", {"alpha": 0.2}).params.alpha == 0.2


def test_misspelled_common_option_has_a_suggestion():
    assert make_scheduler("even", ["order=priority", "user_slots=3"]).given == {"order": "priority", "user_slots": 3}
    with pytest.raises(InputError, match="did you mean 'order', an option of all schedulers"):
        make_scheduler("even", ["ordr=priority"])
    with pytest.raises(InputError, match="should be one of given, priority"):
        make_scheduler("online", ["order=fast"])
    with pytest.raises(InputError, match="should be from -1 to"):
        make_scheduler("online", ["user_slots=-2"])


def test_unknown_parameter_error_lists_valid_ones_and_all_other_faults():
    of_all = "backfill, order, user_cpu_percent, user_executors, user_memory_mb, user_slots"
    with pytest.raises(InputError) as none:
        make_scheduler("spread", {"xyz": 1})
    assert [fault.message for fault in none.value.faults] == [f"unknown parameter; all schedulers have {of_all}"]
    with pytest.raises(InputError) as several:
        make_scheduler("t_storm", ["xyz=1", "ordr=given", "gamma=0", "user_slots=-2"])
    assert {fault.path: fault.message for fault in several.value.faults} == {
        "xyz": f"unknown parameter; there are gamma, and all schedulers have {of_all}",
        "ordr": "unknown parameter; did you mean 'order', an option of all schedulers?",
        "user_slots": "should be from -1 to 9,007,199,254,740,992, got -2",
        "gamma": "should be from 1 to 1e+09, got 0.0",
    }


def test_common_options_are_validated_without_creating_a_scheduler():
    with pytest.raises(InputError, match="should be one of given, priority"):
        check_settings("even", ["order=fast"])


VARIANTS = [(name, variant) for name in registry.SCHEDULERS for variant in variants_of(scheduler_type(name))]


@pytest.mark.parametrize(("name", "variant"), VARIANTS)
def test_variant_sets_its_values_and_leaves_the_others(name, variant):
    values = dict(variants_of(scheduler_type(name))[variant].values)
    params = vars(make_scheduler(name, {"variant": variant}).params)
    assert params == {**vars(make_scheduler(name).params), **values}


def test_given_parameters_win_over_those_of_the_variant():
    params = make_scheduler("online", ["alpha=0.25", "variant=authors"]).params
    assert (params.meaning, params.alpha, params.delta) == ("authors", 0.25, 0.0)


def test_unknown_variant_is_a_fault_among_others():
    with pytest.raises(InputError) as caught:
        check_settings("online", ["alpha=7", "variant=ours"])
    assert {fault.path for fault in caught.value.faults} == {"alpha", "variant"}


def test_scheduler_without_variants_has_no_such_setting():
    with pytest.raises(InputError) as caught:
        check_settings("even", ["variant=authors"])
    assert [fault.path for fault in caught.value.faults] == ["variant"]


def test_variants_of_another_package_are_checked(plugins, monkeypatch):
    monkeypatch.setattr(Dice, "variants", {"loaded": {"seed": 6}}, raising=False)
    with pytest.raises(SchedulerError):
        make_scheduler("dice")
    monkeypatch.setattr(Dice, "variants", {"loaded": ParameterSet("sixes", {"seed": 6})})
    assert make_scheduler("dice", {"variant": "loaded"}).params.seed == 6


def test_the_last_of_equal_keys_counts():
    assert parse_settings(["a=1", "a=2=3"]) == {"a": "2=3"}


def test_setting_without_a_value():
    with pytest.raises(InputError, match="alpha: should be key=value"):
        make_scheduler("online", ["alpha", "beta=1"])


def test_unknown_name_gets_a_suggestion():
    with pytest.raises(InputError, match="unknown scheduler; did you mean 'online'"):
        make_scheduler("onlin")
    with pytest.raises(InputError, match=f"unknown scheduler; there are {', '.join(registry.SCHEDULERS)}"):
        make_scheduler("zzz")


def test_plugins_are_found_and_cannot_replace_ours(plugins):
    assert scheduler_names() == (*registry.SCHEDULERS, "broken", "dice")
    assert make_scheduler("dice").params == DiceParams()
    assert not isinstance(make_scheduler("even"), Dice)


@pytest.mark.slow
def test_no_scheduler_is_known_by_name_outside_its_file():
    """But in the table of names, where the default is described, and where papers are quoted."""
    known = {*registry.SCHEDULERS, "java:"}
    places = {
        str(path.relative_to(ROOT))
        for path in ROOT.rglob("*.py")
        if not path.is_relative_to(ROOT / "evaluations" / "papers") and path.name != "generic.py"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and node.value in known - {path.stem}
    }
    # A search has numbers that are called random, of costs it is told what part of them was learned, and extras are
    # called after what they bring.
    others = {"optimize/search/budget.py", "cli/calibrate.py", "predict/calibration/document.py", "cli/__init__.py"}
    assert places - others == {
        "schedulers/toolkit/registry.py",
        "defaults.py",
        "storm/java_names.py",
    }


def test_builtin_schedulers_declare_expected_traits():
    """The rest is what `Traits` says where nothing is declared."""
    declared = {name: traits_of(name) for name in registry.SCHEDULERS}
    assert {name: traits for name, traits in declared.items() if traits != Traits()} == {
        "annealing": Traits(quick_up_to=30),
        "ant_colony": Traits(quick_up_to=500),
        "binpack": Traits(quick_up_to=20_000),
        "cost_aware": Traits(quick_up_to=20_000),
        "d_storm": Traits(adapts=Adaptation(on_overload=True), quick_up_to=20_000),
        "even": Traits(heeds_limits=False, takes_turns=False),
        "genetic": Traits(quick_up_to=1000),
        "learned": Traits(adapts=ONLINE, asks_others=True),
        "model_free": Traits(adapts=ONLINE, asks_others=True, moves_running=True),
        "metis": Traits(quick_up_to=50_000),
        "model_driven": Traits(quick_up_to=20_000),
        "n_version": Traits(moves_running=True, adapts=ONLINE, asks_others=True),
        "nearest_average_load": Traits(quick_up_to=20_000),
        "offline": Traits(quick_up_to=50_000),
        "online": Traits(cpu_percent_parameter="capacity", moves_running=True, adapts=ONLINE),
        "optimizer": Traits(heeds_requests=True, moves_running=True, adapts=ONLINE),
        "p_scheduler": Traits(adapts=Adaptation(on_drift=True, gains=(TRAFFIC, NODES)), quick_up_to=20_000),
        "predictive": Traits(uses_forecast=True, quick_up_to=50_000),
        "spread": Traits(quick_up_to=20_000),
        "t_storm": Traits(adapts=Adaptation(on_period=True, on_overload=True, gains=(TRAFFIC, NODES))),
        "tag_aware": Traits(heeds_tags=True, keeps_untagged_apart=True),
        "toss": Traits(adapts=Adaptation(on_period=True, on_drift=True, gains=(BALANCE,))),
    }


def test_plugins_are_assumed_to_heed_tags(plugins):
    assert traits_of("dice") == traits_of("broken") == traits_of("no such") == Traits(heeds_tags=True)


def test_default_objective_applies_to_schedulers_with_objectives():
    assert make_scheduler("optimizer", objective="nodes").params.objective == "nodes"
    assert make_scheduler("optimizer", ["objective=latency"], objective="nodes").params.objective == "latency"
    assert make_scheduler("even", objective="nodes").params is not None
    assert make_scheduler("optimizer", ["max_moves=3"], objective="nodes").params.objective == "auto"


def test_objective_unknown_to_a_scheduler_is_ignored_by_it():
    pytest.importorskip("pymetis")
    assert make_scheduler("metis", objective="throughput").params.objective in ("volume", "cut")


def test_seed_applies_to_randomized_schedulers(plugins):
    assert make_scheduler("dice", seed=7).params.seed == 7
    assert make_scheduler("even", seed=7).params is not None


def test_plugin_with_failing_import_raises_missing_dependency_error(plugins):
    with pytest.raises(MissingDependencyError, match=r"'broken' .* cannot be loaded: No module named"):
        make_scheduler("broken")
