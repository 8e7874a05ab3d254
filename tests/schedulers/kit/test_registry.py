"""Schedulers by name, ours and those of other packages."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import EntryPoint

import pytest

from stormwright.errors import InputError, MissingDependencyError
from stormwright.schedulers import make_scheduler, parse_settings, scheduler_names
from stormwright.schedulers.kit import registry
from stormwright.schedulers.kit.isolating import Isolating
from stormwright.schedulers.kit.params import Params, param


@dataclass(frozen=True, kw_only=True)
class DiceParams(Params):
    seed: int = param(0, "of the dice", low=0)


class Dice:
    """What a plugin offers."""

    params_type = DiceParams

    def __init__(self, params):
        self.params = params


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
def test_file_name_is_registry_key(name):
    scheduler = make_scheduler(name)
    assert isinstance(scheduler, Isolating) == (name != "even")
    rule = scheduler.scheduler if isinstance(scheduler, Isolating) else scheduler
    assert type(rule).__module__ == f"stormwright.schedulers.{name}"
    assert scheduler.params == rule.params


def test_settings_as_texts_and_as_values():
    assert make_scheduler("online", ["alpha=0.2", "gamma = 2"]).params.gamma == 2
    assert make_scheduler("online", {"alpha": 0.2}).params.alpha == 0.2


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
    assert isinstance(make_scheduler("dice"), Dice)
    assert not isinstance(make_scheduler("even"), Dice)


def test_seed_reaches_those_that_draw(plugins):
    assert make_scheduler("dice", seed=7).params.seed == 7
    assert make_scheduler("even", seed=7).params is not None


def test_plugin_that_cannot_be_imported(plugins):
    with pytest.raises(MissingDependencyError, match=r"'broken' .* cannot be loaded: No module named"):
        make_scheduler("broken")
