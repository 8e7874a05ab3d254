"""Cost against moves: what a curve must be, and what the verb prints."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import orjson
import pytest

from stormwright import cli
from stormwright.errors import InputError
from stormwright.experiments.tradeoff import steps_up_to, tradeoff
from stormwright.formats import write_problem
from stormwright.model import cost_of
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


def test_more_moves_cost_no_more_and_limits_are_kept():
    of = chain()
    found = tradeoff(of, [0, 1, 2, 3, 4], seconds=0.1)
    assert found.staying == cost_of(of, of.current_slot).total == 700.0
    assert [point.most for point in found.points] == [0, 1, 2, 3, 4, None]
    assert all(point.most is None or point.moved <= point.most for point in found.points)
    assert all(before.cost >= after.cost for before, after in pairwise(found.points))
    first = found.points[0]
    assert (first.moved, first.restarted, first.cost) == (0, 0, found.staying)
    # Two workers have to stay: what is left between them is one link, within a node.
    assert found.least == pytest.approx(0.2 * 100)
    assert found.part_gained(first) == 0.0
    assert found.part_gained(found.points[-1]) == 1.0
    assert found.within(0.0).cost == found.least


def test_restarted_workers_are_those_whose_executors_or_slot_change():
    found = tradeoff(chain(), [1], seconds=0.1)
    assert (found.points[0].moved, found.points[0].restarted) == (1, 2), "the worker it leaves and the one it joins"
    with pytest.raises(InputError, match="restarts more workers, at least 2"):
        tradeoff(chain(), [1], seconds=0.1, restarts=1)
    assert len(tradeoff(chain(), [0, 1], seconds=0.1, restarts=1).points) == 1


def test_what_breaks_limits_is_told():
    of = problem(nodes(0.5, 1), (topology("t", 8, 2), load(8, PAIRS)))
    found = tradeoff(running(of, [0] * 7 + [4]), [0, 2], seconds=0.1)
    assert found.broken == 1
    assert found.points[-1].broken == 0
    assert found.within(0.02).broken == 0


def test_nothing_runs():
    with pytest.raises(InputError, match="nothing runs"):
        tradeoff(problem(nodes(1, 1), (topology("t", 8, 2), load(8, PAIRS))))


def test_verb(tmp_path, capsys):
    path, page = tmp_path / "p.npz", tmp_path / "new" / "curve.html"
    write_problem(path, chain())
    assert cli.run(["tradeoff", str(path), "--moves", "0, 2", "--seconds", "0.1", "--output", str(page)]) == 0
    text = capsys.readouterr().out
    assert "staying costs 700.0; the least found is 20.0" in text
    assert [line.split()[0] for line in text.splitlines()[3:6]] == ["0", "2", "all"]
    Page(page.read_text(encoding="utf-8"))
    assert cli.run(["tradeoff", str(path), "--moves", "0,2", "--seconds", "0.1", "--json"]) == 0
    document = orjson.loads(capsys.readouterr().out)
    assert document["cost"] == 700.0
    assert [point["most"] for point in document["points"]] == [0, 2, None]
    assert np.all(np.diff([point["cost"] for point in document["points"]]) <= 0)


@pytest.mark.parametrize("moves", ["", "x", "-1", "1,,2", "1.5"])
def test_verb_refuses_what_is_no_number_of_moves(moves, tmp_path, capsys):
    path = tmp_path / "p.npz"
    write_problem(path, chain())
    assert cli.run(["tradeoff", str(path), "--moves", moves]) == cli.BAD_INPUT
    assert "whole numbers" in capsys.readouterr().err
