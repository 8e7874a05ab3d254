"""Descriptions say what class, docstring and fields say."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import EntryPoint

import pytest

from stormwright.errors import InputError
from stormwright.schedulers import make_scheduler, scheduler_names
from stormwright.schedulers.toolkit import registry
from stormwright.schedulers.toolkit.describe import describe, describe_class
from stormwright.schedulers.toolkit.params import Params, param


@dataclass(frozen=True, kw_only=True)
class DiceParams(Params):
    seed: int = param(3, "of the dice", low=0)
    weight: float = param(0.5, "of the dice in g", low=0.1, high=2)
    colour: str = param("red", "of the dice", choices=("red", "green"))
    loaded: bool = param(False, "true: sixes only")


class Dice:
    """Lets the dice
    decide.

    More about dice.

    A. Gambler, "Dice",
    Journal of Luck, 1999.

    When to use
    -----------
    Whenever nothing
    better is known.

    Ignores
    -------
    Everything.

    Honours
    -------
    luck, the
    rules

    Raises
    ------
    InputError
        Six dice.
    """

    params_type = DiceParams

    def __init__(self, params):
        self.params = params

    def schedule(self, problem):
        return make_scheduler("even").schedule(problem)


@pytest.fixture
def dice(monkeypatch):
    point = EntryPoint("dice", f"{__name__}:Dice", registry.ENTRY_POINT_GROUP)
    monkeypatch.setattr(registry, "entry_points", lambda group: [point])
    monkeypatch.setattr(EntryPoint, "load", lambda self: Dice)
    return describe("dice")


def test_rule_text_and_source_come_from_the_docstring(dice):
    assert dice.rule == "Lets the dice decide."
    assert dice.text == 'More about dice.\n\nA. Gambler, "Dice",\nJournal of Luck, 1999.'
    assert dice.source == 'A. Gambler, "Dice", Journal of Luck, 1999.'
    assert dice.implementation == f"{__name__}:Dice"


def test_docstring_sections_are_parsed_separately(dice):
    assert dice.when_to_use == "Whenever nothing better is known."
    assert dice.ignores == "Everything."
    assert dice.honours == ("luck", "the rules")
    assert dice.errors == "InputError\n    Six dice."


def test_sections_may_be_missing():
    description = describe_class("bare", type("Bare", (), {"__doc__": "Does nothing."}), DiceParams)
    assert (description.rule, description.text, description.source) == ("Does nothing.", "", "")
    assert (description.when_to_use, description.ignores, description.honours, description.errors) == ("", "", (), "")


def test_described_parameters_come_from_dataclass_fields(dice):
    assert [(p.name, p.default, p.allowed) for p in dice.parameters] == [
        ("seed", 3, "integer at least 0"),
        ("weight", 0.5, "number from 0.1 to 2"),
        ("colour", "red", "red | green"),
        ("loaded", False, "true or false"),
    ]
    assert dice.parameters[1].text == "of the dice in g"


@pytest.mark.parametrize("name", registry.SCHEDULERS)
def test_description_of_each_builtin_scheduler_is_complete(name):
    description = describe(name)
    assert description.rule.endswith(".")
    assert len(description.rule) < 130
    assert description.source
    assert description.when_to_use.endswith(".")
    assert description.ignores.endswith(".")
    assert all(parameter.text for parameter in description.parameters)


@pytest.mark.parametrize("name", registry.SCHEDULERS)
def test_described_defaults_equal_scheduler_parameters(name):
    params = make_scheduler(name).params
    assert {p.name: p.default for p in describe(name).parameters} == vars(params)


def test_every_name_can_be_described():
    assert [describe(name).name for name in scheduler_names()] == list(scheduler_names())


def test_unknown_name():
    with pytest.raises(InputError, match="did you mean 'online'"):
        describe("onlin")
