"""What every verb prints without options fits a screen: on a cluster of 200 nodes, 135 topologies, 4,000 executors."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from stormwright.advise.commands import orders_of
from stormwright.advise.search.advice import Advice, Alternative, ComponentAdvice, NodeAdvice, TopologyAdvice
from stormwright.cli.advise import print_advice
from stormwright.formats import write_problem
from stormwright.model import Assignment
from stormwright.workbench.ready_problems import read_problem
from tests.cli.serve.test_trying import free_port

CLUSTER = "ready:cluster-200"

#: Lines of a verb's text, and characters of each.
MAX_LINES, LONGEST = 20, 200


def assert_short(out: str, most: int = MAX_LINES) -> None:
    lines = out.splitlines()
    assert lines
    assert len(lines) <= most, out
    assert max(map(len, lines)) <= LONGEST, max(lines, key=len)


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        ("schedule", CLUSTER, "--scheduler", "online"),
        ("schedule", CLUSTER, "--scheduler", "optimizer", "--set", "time_budget_s=1"),
        ("schedule", CLUSTER, "--scheduler", "even", "--from-scratch"),
        ("compare", CLUSTER, "--schedulers", "even,round_robin,online,r_storm,binpack,spread,random"),
        ("explain", CLUSTER),
        ("explain", CLUSTER, "--topology", "search-1-1-0"),
        ("predict", CLUSTER),
        ("whatif", CLUSTER, "--rate", "x3", "--kill-node", "node-0048.example"),
        ("simulate", CLUSTER, "--seconds", "0.01"),
        ("bound", CLUSTER, "--seconds", "1", "--search", "1"),
        ("bound", CLUSTER, "--seconds", "1", "--search", "1", "--objective", "nodes"),
        ("tradeoff", CLUSTER, "--moves", ",".join(map(str, range(0, 400, 20))), "--seconds", "0.05"),
        ("plan", CLUSTER, "--goal", "traffic", "--scheduler", "online", "--topology", "search-*"),
        ("schedulers",),
        ("schedulers", "optimizer"),
        ("schedulers", "online"),
    ],
    ids=lambda arguments: " ".join(arguments[:1] + arguments[2:]),
)
def test_verbs_of_files_print_a_screen(run, arguments):
    code, out, err = run(*arguments)
    assert code in (0, 1), err
    assert_short(out)


def test_convert_prints_a_line(run, tmp_path):
    code, out, _ = run("convert", CLUSTER, tmp_path / "cluster.npz")
    assert code == 0
    assert_short(out, 1)


@pytest.mark.slow
def test_option_all_prints_every_line(run):
    short, whole = (run("predict", CLUSTER, *options)[1] for options in ((), ("--all",)))
    assert len(whole.splitlines()) > 10 * len(short.splitlines())
    topologies = json.loads(run("predict", CLUSTER, "--json")[1])["today"]["topologies"]
    assert all(each["topology"] in whole for each in topologies)


@pytest.mark.slow
def test_plan_of_file_names_at_most_three_topologies_and_all_with_steps(run):
    arguments = ("plan", CLUSTER, "--goal", "traffic", "--set", "iterations=20000", "--gain", 0)
    document = json.loads(run(*arguments, "--json")[1])
    short, whole = (run(*arguments, *options)[1] for options in ((), ("--steps",)))
    names = [each["name"] for each in document["predictions"]]
    assert len(names) > 3
    (pauses,) = [line for line in short.splitlines() if line.startswith("pauses: ")]
    assert sum(name in pauses.replace(",", "").split() for name in names) == 3
    assert all(name in whole for name in names)
    assert len(whole.splitlines()) > len(document["steps"])


@pytest.mark.long
def test_advice_prints_a_screen(capsys):
    """Its search takes minutes for this cluster, so the advice is made up."""
    problem = read_problem(CLUSTER)
    components = tuple(
        ComponentAdvice(one.name, component.id, 2, 3, 8, 1234.5, 0.5)
        for one in problem.topologies
        for component in one.components
    )
    topologies = tuple(
        TopologyAdvice(
            topology=one.id,
            name=one.name,
            rate_tps=1000.0,
            measured_tps=900.0,
            free_now=0.0,
            enough_now=False,
            highest_tps=1300.0,
            bottleneck="the CPU of node node-0001.example",
            mean_ms=1.5,
            p95_ms=3.5,
            workers=4,
            workers_now=3,
            needs_pending=500,
        )
        for one in problem.topologies
    )
    nodes = tuple(NodeAdvice(each.host, "like it", 4.0, True, 0.5, 0.1, 20) for each in problem.supervisors)
    other = tuple(Alternative(f"{number} × like it", float(number), 4000, 0.2, 3.5) for number in range(200, 210))
    placed = Assignment(np.roll(problem.current_slot, 1))
    advice = Advice(
        problem, placed, components, topologies, nodes, "200 × like it", 800.0, 0.25, ("a step",) * 300, other
    )
    print_advice(problem, advice, orders_of(advice), (), priced=False)
    assert_short(capsys.readouterr().out)


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """Address of a service of a virtual cluster of 200 nodes, and its state directory."""
    directory, port = tmp_path_factory.mktemp("served"), free_port()
    problem = read_problem(CLUSTER)
    write_problem(directory / "cluster.json", problem)
    command = [sys.executable, "-m", "stormwright", "serve", "--simulated", directory / "cluster.json"]
    command += ["--state", directory / "state", "--port", str(port), "--speed", "20"]
    address = f"http://127.0.0.1:{port}"
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            yield address, directory / "state", process
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=120)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_verbs_of_services_print_a_screen(run, served):
    address, state, process = served
    where = ("--service", address)
    until = time.monotonic() + 300
    while run("status", *where)[0] == 2 or not json.loads(run("status", *where, "--json")[1])["rate_tps"]:
        assert process.poll() is None
        assert time.monotonic() < until
        time.sleep(1)
    assert_short(run("status", *where)[1], 15)
    code, out, err = run("plan", *where, "--goal", "traffic", "--gain", 0)
    assert code == 0, err
    assert_short(out)
    (plan,) = json.loads(run("plan", *where, "--list", "--json")[1])["plans"][:1]
    assert_short(run("plan", *where, "--show", plan["id"])[1])
    assert_short(run("plan", *where, "--list")[1])
    code, out, err = run("apply", plan["id"], *where, "--no-wait")
    assert code == 0, err
    assert_short(out, 5)
    assert_short(run("status", *where)[1], 15)
    assert_short(run("apply", plan["id"], *where, "--stop")[1], 5)
    assert_short(run("status", *where)[1], 15)
    assert_short(run("plan", *where, "--show", plan["id"])[1])
    assert_short(run("plan", *where, "--discard", plan["id"])[1], 5)
    assert_short(run("history", *where)[1])
    assert_short(run("mode", *where)[1])
    assert_short(run("drain", "node-0001.example", *where, "--plan-only")[1])
    assert_short(run("drain", *where)[1])
    run("token", "create", "anna", "--role", "viewer", "--state", state)
    assert_short(run("token", "list", "--state", state)[1])
    assert_short(run("doctor", *where)[1])
