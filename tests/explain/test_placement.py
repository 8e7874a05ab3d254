"""A placement that is printed or shown says what the model says of it."""

from __future__ import annotations

from xml.etree import ElementTree

import numpy as np

from stormwright.api import Placement
from stormwright.formats.sketch import sketch
from stormwright.model import Assignment, cost_of, violations
from stormwright.schedulers import make_scheduler

PROBLEM = sketch({"<words>": "lines 2 -> split 4 -> count 3 fields"}, nodes=3)


def placement(name: str) -> Placement:
    return Placement.of(PROBLEM, make_scheduler(name).schedule(PROBLEM))


def test_placement_is_an_assignment_with_its_cost():
    found = placement("even")
    assert isinstance(found, Assignment)
    cost = cost_of(PROBLEM, found.slot_of_executor)
    assert found.cost == cost
    assert f"cost {cost.total:,.1f}: {cost.inter_node:,.1f} tuples/s between nodes" in found.summary()
    assert repr(found) == found.summary()
    assert not found.broken


def test_its_picture_has_every_executor_and_no_markup_of_names():
    found = placement("online")
    root = ElementTree.fromstring(found.svg())  # noqa: S314 (it is ours)
    marks = [rect for rect in root.iter("{http://www.w3.org/2000/svg}rect") if rect.find("{*}title") is not None]
    assert len(marks) == PROBLEM.num_executors
    html = found._repr_html_()
    assert "<words>" not in html
    assert html.count("<svg") == 1


def test_placement_lists_its_violations():
    everything = Placement.of(PROBLEM, Assignment(np.zeros(PROBLEM.num_executors, np.int32)))
    assert len(everything.broken) == len(violations(PROBLEM, everything.slot_of_executor)) > 0
    assert "broken:" in everything.summary()


def test_large_placement_has_no_drawing():
    large = sketch("a 2000", nodes=3)
    shown = Placement.of(large, make_scheduler("even").schedule(large))._repr_html_()
    assert "<svg" not in shown
    assert "2,000 executors" in shown
