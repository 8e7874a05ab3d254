"""An agent's choice: the nearest assignments against enumeration, gradients against differences, and learning."""

from __future__ import annotations

from itertools import pairwise, product
from pathlib import Path

import numpy as np
import pytest
from stormwright_lab.evaluations.learning.model_free import ControlSettings, VirtualTopology, train_agent

import stormwright as sw
from stormwright.errors import InputError
from stormwright.schedulers import make_scheduler
from stormwright.schedulers.portfolio.agent import Agent, NeuralNetwork, nearest_assignments, one_hot, read_agent


def network(rng: np.random.Generator, *sizes: int) -> NeuralNetwork:
    pairs = list(pairwise(sizes))
    return NeuralNetwork([rng.normal(size=pair) for pair in pairs], [rng.normal(size=size) for size in sizes[1:]])


@pytest.mark.parametrize(("executors", "nodes", "count"), [(4, 3, 81), (5, 3, 40), (3, 4, 1), (2, 1, 5)])
def test_the_nearest_assignments_are_those_of_an_enumeration(executors: int, nodes: int, count: int) -> None:
    proposal = np.random.default_rng(executors).normal(size=(executors, nodes))
    every = [np.array(each) for each in product(range(nodes), repeat=executors)]
    distances = sorted(float(((one_hot(each, nodes) - proposal.ravel()) ** 2).sum()) for each in every)
    found = nearest_assignments(proposal, count)
    assert len({tuple(each.tolist()) for each in found}) == len(found) == min(count, len(every))
    own = [float(((one_hot(each, nodes) - proposal.ravel()) ** 2).sum()) for each in found]
    assert own == pytest.approx(distances[: len(found)])


def test_the_gradient_of_a_network_is_that_of_differences() -> None:
    rng = np.random.default_rng(3)
    critic, inputs = network(rng, 6, 5, 4, 1), rng.normal(size=(3, 6))
    gradient = critic.input_gradient(inputs)
    for column in range(6):
        step = np.zeros(6)
        step[column] = 1e-6
        difference = (critic(inputs + step) - critic(inputs - step))[:, 0] / 2e-6
        assert gradient[:, column] == pytest.approx(difference, rel=1e-4, abs=1e-7)


@pytest.fixture(scope="module")
def chain() -> sw.Problem:
    """Two executors that exchange everything, and an acker, by default on two nodes."""
    return sw.sketch({"words": "lines 1 -> count 1 fields"}, nodes=2, workers=2, ackers=1, rate_tps=2_000)


def test_a_topology_without_ackers_is_refused() -> None:
    with pytest.raises(InputError, match="ackers"):
        VirtualTopology(sw.sketch({"words": "lines 1 -> count 1"}, nodes=2))


def test_a_load_beyond_the_limit_of_even_is_refused(chain: sw.Problem, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(VirtualTopology, "latency_ms", lambda *_: float("inf"))
    with pytest.raises(InputError, match="sustains"):
        train_agent(VirtualTopology(chain))


@pytest.mark.slow
def test_an_agent_learns_an_assignment_with_a_fifth_of_the_latency_under_even(
    chain: sw.Problem, tmp_path: Path
) -> None:
    environment = VirtualTopology(chain, seconds=0.6)
    train_agent(environment, ControlSettings(samples=150, steps=150)).write(tmp_path / "agent.npz")
    answer = make_scheduler("model_free", {"agent": str(tmp_path / "agent.npz")}).schedule(chain)
    chosen = chain.slot_node[answer.slot_of_executor].astype(np.int32)
    even_ms, own_ms = (environment.latency_ms(nodes, 0.7, 99) for nodes in (environment.even, chosen))
    assert own_ms < 0.2 * even_ms < np.inf


def test_an_agent_is_stored_as_data(tmp_path: Path) -> None:
    rng, path = np.random.default_rng(0), tmp_path / "agent.npz"
    agent = Agent(network(rng, 9, 4, 8), network(rng, 17, 4, 1), {"a": 1, "b": 3}, 2, 500.0)
    agent.write(path)
    again = read_agent(path)
    assert (again.components, again.nodes, again.rate_tps) == ({"a": 1, "b": 3}, 2, 500.0)
    current = np.array([0, 1, 1, -1], np.int32)
    for one, other in zip(agent.choose(current, 300.0), again.choose(current, 300.0), strict=True):
        assert one.tolist() == other.tolist()


def test_an_agent_of_another_topology_is_refused(chain: sw.Problem, tmp_path: Path) -> None:
    rng, path = np.random.default_rng(0), tmp_path / "agent.npz"
    Agent(network(rng, 10, 4, 9), network(rng, 19, 4, 1), {"a": 3}, 3, 500.0).write(path)
    with pytest.raises(InputError) as refused:
        make_scheduler("model_free", {"agent": str(path)}).schedule(chain)
    assert len(refused.value.faults) == 2
    path.write_bytes(b"nothing")
    with pytest.raises(InputError, match="learn --control"):
        make_scheduler("model_free", {"agent": str(path)})
