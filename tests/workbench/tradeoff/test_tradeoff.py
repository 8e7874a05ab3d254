"""Cost against moves: what a curve must be, and what the verb prints."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import orjson
import pytest

from stormwright import cli
from stormwright.errors import InputError
from stormwright.formats import write_problem
from stormwright.model import cost_of
from stormwright.workbench.tradeoff_curve import MoveLimit, steps_up_to, tradeoff
from tests.cli.test_compare import Page
from tests.schedulers.builders import load, nodes, problem, running, topology

#: Neighbours in a chain of eight sit apart, in turns on two nodes.
PAIRS = [(n, n + 1, 100.0) for n in range(7)]


def chain(slots=(0, 4) * 4):
    of = problem(nodes(1, 1), (topology("t", 8, 2), load(8, PAIRS)))
    return running(of, list(slots))


def test_steps_are_spread():
    assert steps_up_to(1) == [0]
    assert steps_up_to(30) == [0, 1, 2, 5, 10, 20]
    assert steps_up_to(1000)[-3:] == [100, 200, 500]


@pytest.mark.long
def test_cost_falls_with_more_moves_and_limits_are_respected():
    of = chain()
    found = tradeoff(of, [0, 1, 2, 3, 4], seconds=0.1)
    assert found.staying == cost_of(of, of.current_slot).total == 700.0
    assert [point.limits for point in found.points] == [*map(MoveLimit, range(5)), MoveLimit()]
    assert all(point.limits.allow(point) for point in found.points)
    assert all(before.cost >= after.cost for before, after in pairwise(found.points))
    first = found.points[0]
    assert (first.moved, first.restarted, first.cost) == (0, 0, found.staying)
    # Two workers have to stay: what is left between them is one link, within a node.
    assert found.least == pytest.approx(0.2 * 100)
    assert found.part_gained(first) == 0.0
    assert found.part_gained(found.points[-1]) == 1.0
    assert [point.cost for point in found.near_lowest_cost(0.0)] == [found.least] * len(found.near_lowest_cost(0.0))


def test_restarted_workers_include_source_and_target_of_moves():
    found = tradeoff(chain(), [1], seconds=0.1)
    assert (found.points[0].moved, found.points[0].restarted) == (1, 2), "the worker it leaves and the one it joins"


@pytest.mark.long
def test_more_restarts_cost_no_more():
    """With one restart a worker can only change its slot, which puts both on one node."""
    found = tradeoff(chain(), restarts=[0, 1, 2], seconds=0.1)
    assert [(point.limits.restarts, point.restarted) for point in found.points] == [(0, 0), (1, 1), (2, 2), (None, 2)]
    assert [point.cost for point in found.points] == pytest.approx([700.0, 0.2 * 700, 20.0, 20.0])
    assert [(what, [most for most, _ in points]) for what, points in found.curves()] == [
        ("workers that may restart", [0, 1, 2, None])
    ]


@pytest.mark.long
def test_both_limits_hold_together():
    found = tradeoff(chain(), [1, 8], [1, 2], seconds=0.1)
    assert [point.limits for point in found.points] == [
        MoveLimit(1, 1),
        MoveLimit(1, 2),
        MoveLimit(8, 1),
        MoveLimit(8, 2),
        MoveLimit(),
    ]
    assert all(point.limits.allow(point) for point in found.points)
    assert [point.cost for point in found.points[:3]] == pytest.approx([700.0, 500.0, 140.0])
    assert len(found.curves()) == 2


@pytest.mark.long
def test_both_curves_by_default():
    found = tradeoff(chain(), seconds=0.05)
    assert [limits.limits for limits in found.points] == [
        *(MoveLimit(moves=most) for most in (0, 1, 2, 5)),
        *(MoveLimit(restarts=most) for most in (0, 1)),
        MoveLimit(),
    ]
    assert [len(points) for _, points in found.curves()] == [5, 3]


@pytest.mark.long
def test_placements_violating_limits_are_reported():
    of = problem(nodes(0.5, 1), (topology("t", 8, 2), load(8, PAIRS)))
    found = tradeoff(running(of, [0] * 7 + [4]), [0, 2], seconds=0.1)
    assert found.broken == 1
    assert found.points[-1].broken == 0
    assert all(point.broken == 0 for point in found.near_lowest_cost(0.02))


def test_nothing_runs():
    with pytest.raises(
        InputError, match=r"no current placement, .*; it is part of problems from `stormwright import nimbus`"
    ):
        tradeoff(problem(nodes(1, 1), (topology("t", 8, 2), load(8, PAIRS))))


@pytest.mark.long
def test_verb(tmp_path, capsys):
    path, page = tmp_path / "p.npz", tmp_path / "curve.html"
    write_problem(path, chain())
    assert cli.run(["tradeoff", str(path), "--moves", "0, 2", "--seconds", "0.1", "--output", str(page)]) == 0
    text = capsys.readouterr().out
    assert "The cost of traffic falls from 700 to 20 if all may move." in text
    assert [line.split()[:2] for line in text.splitlines()[3:6]] == [["0", "all"], ["2", "all"], ["all", "all"]]
    Page(page.read_text(encoding="utf-8"))
    assert cli.run(["tradeoff", str(path), "--moves", "0,2", "--seconds", "0.1", "--json"]) == 0
    document = orjson.loads(capsys.readouterr().out)
    assert document["cost"] == 700.0
    assert [(point["most_moves"], point["most_restarts"]) for point in document["points"]] == [
        (0, None),
        (2, None),
        (None, None),
    ]
    assert np.all(np.diff([point["cost"] for point in document["points"]]) <= 0)


@pytest.mark.parametrize("option", ["--moves", "--restarts"])
@pytest.mark.parametrize("numbers", ["", "x", "-1", "1,,2", "1.5"])
def test_tradeoff_rejects_invalid_limit_numbers(option, numbers, tmp_path, capsys):
    path = tmp_path / "p.npz"
    write_problem(path, chain())
    assert cli.run(["tradeoff", str(path), option, numbers]) == cli.BAD_INPUT
    assert "whole numbers" in capsys.readouterr().err


def test_move_limits_are_formatted_as_text():
    assert str(MoveLimit(moves=1)) == "at most 1 executor may move"
    assert (
        str(MoveLimit(moves=1_000, restarts=1)) == "at most 1,000 executors may move and at most 1 worker may restart"
    )
    assert str(MoveLimit()) == "anything goes"
