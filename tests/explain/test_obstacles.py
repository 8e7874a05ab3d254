"""Storm's status text: Nimbus gets the text that ``stormwright explain`` prints."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from stormwright import cli
from stormwright.explain.explain import explain
from stormwright.explain.obstacles import status_texts
from stormwright.formats import problem_from_dict, problem_to_dict, write_assignment, write_problem
from stormwright.model import Assignment, Component, Problem, Topology, default_executor_runs
from stormwright.schedulers import make_scheduler
from stormwright.service.composition import Service
from stormwright.service.settings import ServiceSettings
from tests.schedulers.builders import load, nodes, problem, topology


def tagged_problem() -> Problem:
    """Three nodes, two with the tag that the topology wants, of which one is blacklisted and the other too small."""
    components = (Component("parse", "spout", 2), Component("score", "bolt", 2, tags=("gpu",)))
    wanted = Topology("t-1-0", "t", 2, components, default_executor_runs(components))
    of = problem(nodes(4, 4, 4, memory_mb=512), (wanted, load(4, memory_mb=[100, 100, 1024, 1024])))
    tags = [None, {"tags": "gpu"}, {"tags": "gpu"}]
    supervisors = tuple(replace(node, scheduler_meta=own) for node, own in zip(of.supervisors, tags, strict=True))
    return replace(of, supervisors=supervisors, blacklisted_hosts=frozenset({"h1"}))


@pytest.fixture
def status_at_nimbus(tmp_path):
    """The status texts that the service, as `serve` wires it, answers Nimbus with."""

    def ask(of: Problem, initial: str) -> dict[str, str]:
        settings = ServiceSettings(tmp_path / "state", "127.0.0.1", 0, initial)
        service = Service(settings, make_scheduler("online"), "online", [])
        return dict(service.bridge.answer(of).status)

    return ask


@pytest.mark.parametrize("initial", ["tag_aware", "online", "even"])
def test_explain_prints_the_status_text_sent_to_nimbus(initial, status_at_nimbus, tmp_path, capsys):
    of = tagged_problem()
    if initial == "even":  # it looks at slots alone
        of = replace(of, supervisors=tuple(replace(node, ports=()) for node in of.supervisors))
    write_problem(tmp_path / "problem.json", of)
    write_assignment(tmp_path / "answer.json", of, make_scheduler(initial).schedule(of))
    assert cli.run(["explain", str(tmp_path / "problem.json"), str(tmp_path / "answer.json")]) == 0
    assert f"\n  {status_at_nimbus(of, initial)['t-1-0']}\n" in capsys.readouterr().out


def test_status_text_appends_node_counts_to_scheduler_message(status_at_nimbus):
    assert status_at_nimbus(tagged_problem(), "tag_aware")["t-1-0"] == (
        'tag_aware: no room found on 2 nodes with tag "gpu" for 1 workers with 2 executors; '
        'score: 1 of 3 nodes: tag "gpu" missing; 1 of 3: blacklisted; 1 of 3: memory short by 512 MB'
    )


def test_status_text_describes_executor_with_most_excluded_nodes():
    requested = load(3, cpu_ghz=[0.1, 3, 5])
    of = problem(nodes(4, 2), (topology("t", 3, 1), requested))
    answer = Assignment(np.full(3, -1, np.int32), status={"t": "mine: too large"}, scheduler="mine")
    [text] = status_texts(of, answer, ["t"]).values()
    assert text == "mine: too large; c: 2 of 2 nodes: CPU short by 1.0 to 3.0 GHz"
    assert text in [explanation.status_text for explanation in explain(of, answer)]


def test_drained_node_obstacle_includes_user_and_start_time():
    of = problem(nodes(4, 4, 4), (topology("t", 1, 1), load(1, cpu_ghz=9)))
    drained = {"h0": "drained by anna since 2026-11-21 10:30 UTC"}
    of = replace(of, blacklisted_hosts=frozenset({"h0", "h1"}), drained=drained)
    why = "1 of 3 nodes: drained by anna since 2026-11-21 10:30 UTC; 1 of 3: blacklisted; 1 of 3: CPU short by 5.0 GHz"
    assert explain(of, Assignment(np.array([-1])))[0].histogram == why
    for name in ("online", "optimizer"):
        (left,) = make_scheduler(name).schedule(of).grouped_reasons()
        assert "1 of 3 nodes: drained by anna since 2026-11-21 10:30 UTC" in left[2], name
    (left,) = make_scheduler("even").schedule(replace(of, blacklisted_hosts=frozenset({"h0", "h1", "h2"}))).unplaced
    assert left.reasons == ("no free worker slot: 0 of 12 in use, 4 on drained hosts, 8 on blacklisted hosts",)
    again = problem_from_dict(problem_to_dict(of), "again")
    assert (again.drained, again.blacklisted_hosts) == (drained, {"h0", "h1"})
