"""Agent of `model_free`: networks that propose and rate assignments, and the assignments nearest to a proposal."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from stormwright.errors import Fault, InputError
from stormwright.model import Problem
from stormwright.model.arrays import FloatArray, IntArray

#: Schema of the file; the number changes with the meaning of its content.
AGENT_SCHEMA: Final = "stormwright-agent/1"

#: Assignments near a proposal that are rated: what the paper calls K.
NEIGHBOURS: Final = 32


@dataclass(frozen=True, eq=False)
class NeuralNetwork:
    """Fully connected layers with tanh between them.

    Parameters
    ----------
    weights, offsets
        Of each layer: shapes (inputs, outputs) and (outputs,).
    """

    weights: Sequence[FloatArray]
    offsets: Sequence[FloatArray]

    def __call__(self, inputs: FloatArray) -> FloatArray:
        """Return the outputs, shape (n, outputs), for inputs of shape (n, inputs)."""
        values = inputs
        for number, (weight, offset) in enumerate(zip(self.weights, self.offsets, strict=True)):
            values = values @ weight + offset
            if number < len(self.weights) - 1:
                values = np.tanh(values)
        return values

    def input_gradient(self, inputs: FloatArray) -> FloatArray:
        """Return the derivatives of the sum of outputs by the inputs, shape (n, inputs)."""
        values, slopes = inputs, []
        for weight, offset in zip(self.weights[:-1], self.offsets[:-1], strict=True):
            values = np.tanh(values @ weight + offset)
            slopes.append(1 - values**2)
        gradient: FloatArray = np.tile(self.weights[-1].sum(axis=1), (len(inputs), 1))
        for weight, slope in zip(reversed(self.weights[:-1]), reversed(slopes), strict=True):
            gradient = (gradient * slope) @ weight.T
        return gradient


@dataclass(frozen=True, eq=False)
class Agent:
    """Trained networks for one topology on one number of nodes.

    Parameters
    ----------
    actor
        State → proposed assignment, shape (E × N,).
    critic
        State and assignment → expected reward.
    components
        Component ids with their numbers of executors.
    nodes
        Number of nodes of the clusters that the networks were trained for.
    rate_tps
        Trees/s by which rates are divided.
    """

    actor: NeuralNetwork
    critic: NeuralNetwork
    components: Mapping[str, int]
    nodes: int
    rate_tps: float

    def choose(self, current: IntArray, rate_tps: float, neighbours: int = NEIGHBOURS) -> list[IntArray]:
        """Return assignments near the proposal, best first.

        Parameters
        ----------
        current
            Node of every executor now, -1 for none, shape (E,).
        rate_tps
            Trees/s of the topology.
        neighbours
            Number of assignments that are rated.
        """
        state = state_of(current, self.nodes, rate_tps / self.rate_tps)
        proposal = self.actor(state[None])[0].reshape(-1, self.nodes)
        near = nearest_assignments(proposal, neighbours)
        inputs = np.array([np.concatenate([state, one_hot(nodes, self.nodes)]) for nodes in near])
        order = np.argsort(-self.critic(inputs)[:, 0], kind="stable")
        return [near[number] for number in order.tolist()]

    def faults(self, problem: Problem) -> list[Fault]:
        """Return why the agent was not trained for a problem."""
        if len(problem.topologies) != 1:
            return [Fault(f"has {len(problem.topologies)} topologies; an agent is trained for one", "problem")]
        found = problem.topologies[0].executor_counts
        faults = []
        if found != dict(self.components):
            faults.append(Fault(f"has executors {found}; the agent was trained for {dict(self.components)}", "problem"))
        if len(problem.supervisors) != self.nodes:
            message = f"has {len(problem.supervisors)} nodes; the agent was trained for {self.nodes}"
            faults.append(Fault(message, "problem"))
        full = [node.id for node in problem.supervisors if not node.ports]
        if full:
            faults.append(Fault(f"has no slot on {', '.join(full)}; the agent was trained for all nodes", "problem"))
        return faults

    def write(self, path: Path) -> None:
        """Write the agent to a file."""
        arrays: dict[str, Any] = {
            f"{name}-{kind}-{number}": array
            for name, network in (("actor", self.actor), ("critic", self.critic))
            for kind, layers in (("weights", network.weights), ("offsets", network.offsets))
            for number, array in enumerate(layers)
        }
        with path.open("wb") as file:
            np.savez_compressed(
                file,
                schema=AGENT_SCHEMA,
                components=list(self.components),
                executors=list(self.components.values()),
                nodes=self.nodes,
                rate_tps=self.rate_tps,
                **arrays,
            )


def read_agent(path: Path) -> Agent:
    """Read an agent from a file.

    Raises
    ------
    InputError
        It cannot be read, or is no such file.
    """
    try:
        with np.load(path, allow_pickle=False) as data:
            if str(data["schema"]) != AGENT_SCHEMA:
                raise ValueError(f"its schema is {data['schema']}")
            actor, critic = (_network(data, name) for name in ("actor", "critic"))
            components = dict(zip(data["components"].tolist(), data["executors"].tolist(), strict=True))
            return Agent(actor, critic, components, int(data["nodes"]), float(data["rate_tps"]))
    except (OSError, ValueError, KeyError) as error:
        message = f"is no agent of this version ({error}); `stormwright learn --control` makes one"
        raise InputError("agent", [Fault(message, str(path))]) from error


def _network(data: Mapping[str, Any], name: str) -> NeuralNetwork:
    layers = sum(key.startswith(f"{name}-weights-") for key in data)
    kinds = (
        [np.array(data[f"{name}-{kind}-{number}"], float) for number in range(layers)]
        for kind in ("weights", "offsets")
    )
    return NeuralNetwork(*kinds)


def one_hot(nodes: IntArray, count: int) -> FloatArray:
    """Return an assignment as numbers, shape (E × N,): 1 for the node of each executor, else 0."""
    found = np.zeros((len(nodes), count))
    placed = np.flatnonzero(nodes >= 0)
    found[placed, nodes[placed]] = 1.0
    return found.ravel()


def state_of(current: IntArray, nodes: int, rate: float) -> FloatArray:
    """Return the state: the present assignment and the rate of the data source, shape (E × N + 1,)."""
    return np.append(one_hot(current, nodes), rate)


def nearest_assignments(proposal: FloatArray, count: int) -> list[IntArray]:
    """Return the assignments nearest to a proposal by Euclidean distance, nearest first.

    Parameters
    ----------
    proposal
        Proposed assignment, shape (E, N): any numbers.
    count
        How many; fewer if there are fewer.

    Notes
    -----
    An assignment has one node for each executor, so its squared distance is a sum over executors: from the nearest one,
    executors change to their next nodes in order of distance. This finds the same as the integer program of the paper.
    """
    # ‖x − p‖² of a row with a 1 at node j is ‖p‖² + 1 − 2 p_j.
    order = np.argsort(-proposal, axis=1, kind="stable")
    costs = -2.0 * np.take_along_axis(proposal, order, axis=1)
    extra = costs - costs[:, :1]
    executors = np.argsort(extra[:, 1], kind="stable") if proposal.shape[1] > 1 else np.arange(0)
    first = tuple([0] * len(proposal))
    waiting: list[tuple[float, tuple[int, ...], int]] = [(0.0, first, 0)]
    found: list[IntArray] = []
    while waiting and len(found) < count:
        distance, ranks, at = heapq.heappop(waiting)
        found.append(order[np.arange(len(ranks)), ranks].astype(np.int32))
        # An assignment is changed further from its last changed executor on, so that each is reached once.
        for position in range(at, len(executors)):
            executor = int(executors[position])
            rank = ranks[executor] + 1
            if rank < proposal.shape[1]:
                step = float(extra[executor, rank] - extra[executor, rank - 1])
                changed = (*ranks[:executor], rank, *ranks[executor + 1 :])
                heapq.heappush(waiting, (distance + step, changed, position))
    return found
