"""Training of `model_free`: deep deterministic policy gradient with discrete actions, in a virtual cluster.

T. Li, Z. Xu, J. Tang, Y. Wang, "Model-Free Control for Distributed Stream Data Processing using Deep Reinforcement
Learning", PVLDB 11(6), 2018, https://doi.org/10.14778/3199517.3199521, algorithm 1, with its sizes: two hidden layers
of 64 and 32 tanh units, a replay buffer of 1,000 transitions, batches of 32, τ = 0.01, γ = 0.99. It does not say how
weights are optimised: by Adam with a rate of 0.001, and the actor is fitted to proposals that follow the gradient of
the critic by a fixed step.
"""

from __future__ import annotations

import copy
import logging
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from stormwright.defaults import BASELINE
from stormwright.errors import Fault, InputError
from stormwright.model import Problem
from stormwright.model.arrays import FloatArray, IntArray
from stormwright.predict.flow.profile import Profile
from stormwright.schedulers import make_scheduler
from stormwright.schedulers.model_free import slots_on
from stormwright.schedulers.portfolio.agent import (
    NEIGHBOURS,
    Agent,
    NeuralNetwork,
    nearest_assignments,
    one_hot,
    state_of,
)
from stormwright.simulator.settings import SimulatorSettings
from stormwright.simulator.storm.engine import Events

log = logging.getLogger(__name__)

#: Reward of an assignment under which trees take ten times as long as under Storm's scheduler, or do not get through.
MIN_REWARD = -10.0

#: Part of the trees that has to be completed, and standard deviations by which fewer may be offered by chance.
_COMPLETED, _DEVIATIONS = 0.9, 3.0

#: Sizes of the paper: units of hidden layers, transitions remembered, those of a batch, share of new weights in target
#: networks, and discount of later rewards.
_UNITS, _BUFFER, _BATCH, _TARGET_SHARE, _DISCOUNT = (64, 32), 1_000, 32, 0.01, 0.99

#: Step by which the actor's proposal follows the gradient of the critic.
_STEP = 0.1

#: Probability of a random change of the proposal at the first step of control, and of the last one.
_EXPLORES, _EXPLORES_LAST = 0.8, 0.05


class Environment(Protocol):
    """A topology on nodes, whose reward for an assignment at a rate can be measured."""

    executors: int
    nodes: int

    def reward(self, nodes: IntArray, rate: float) -> float:
        """Return the reward of an assignment at a rate, a part of the highest."""
        ...


class VirtualTopology:
    """The only topology of a problem in a virtual cluster.

    Parameters
    ----------
    problem
        Problem with a load, measured at the highest rate that counts.
    seconds
        Virtual seconds of a measurement, in the first third of which queues fill.

    Raises
    ------
    InputError
        The problem has several topologies, no load, or no ackers.

    Attributes
    ----------
    even
        Node of every executor under Storm's own scheduler, shape (E,).
    """

    def __init__(self, problem: Problem, seconds: float = 1.5) -> None:
        if len(problem.topologies) != 1 or problem.load is None:
            raise InputError(
                "problem", [Fault("should have one topology with a load: an agent controls one", "problem")]
            )
        self._profile, self._measurements = Profile.of(problem), 0
        if not np.any(self._profile.layout.is_acker):
            raise InputError("problem", [Fault("has no ackers, so that the time of a tree is unknown", "problem")])
        self.problem, self._seconds = problem, seconds
        self.executors, self.nodes = problem.num_executors, len(problem.supervisors)
        self.rate_tps = float(self._profile.rate_tps[0])
        even = make_scheduler(BASELINE).schedule(problem.with_nothing_running()).slot_of_executor
        self.even: IntArray = problem.slot_node[even].astype(np.int32)
        self._even_ms: dict[float, float] = {}

    def latency_ms(self, nodes: IntArray, rate: float, seed: int) -> float:
        """Return the mean time of a tree in ms; infinite if too few get through.

        Parameters
        ----------
        nodes
            Node of every executor, shape (E,).
        rate
            Part of the load's rate.
        seed
            Seed of random times.
        """
        events = Events(
            self.problem, slots_on(self.problem, nodes), SimulatorSettings.of(self.problem, seed=seed), self._profile
        )
        events.rate(0, rate)
        events.until(self._seconds / 3)
        before = events.counts
        events.until(self._seconds)
        counts = events.counts.since(before)
        completed, begun = (float(counts.topologies[name][0]) for name in ("completed", "begun"))
        offered = rate * self.rate_tps * counts.now_s
        offered -= _DEVIATIONS * offered**0.5  # arrivals are random
        if completed < _COMPLETED * max(begun, offered, 1.0):
            return float("inf")
        return 1e3 * float(counts.topologies["latency_s"][0]) / completed

    def reward(self, nodes: IntArray, rate: float) -> float:
        """Return the negative time of a tree, in parts of that under Storm's own scheduler."""
        self._measurements += 1
        key = round(rate, 2)
        if key not in self._even_ms:
            self._even_ms[key] = self.latency_ms(self.even, key, 0)
        time_ms = self.latency_ms(nodes, rate, self._measurements)
        if not np.isfinite(time_ms):
            return MIN_REWARD
        return max(-time_ms / self._even_ms[key], MIN_REWARD)


@dataclass(frozen=True)
class ControlSettings:
    """Length of the training.

    Parameters
    ----------
    samples
        Random assignments that are measured first; both networks learn from them.
    steps
        Assignments that the agent chooses itself afterwards.
    lowest_rate
        Lowest rate, as a part of the problem's; rates are sampled between it and 1.
    seed
        Seed of all random choices.
    """

    samples: int = 2_000
    steps: int = 1_500
    lowest_rate: float = 0.4
    seed: int = 0


class _Transition(NamedTuple):
    state: FloatArray
    action: FloatArray
    reward: float
    next_state: FloatArray


def train_agent(environment: VirtualTopology, settings: ControlSettings | None = None) -> Agent:
    """Return an agent for a topology.

    Parameters
    ----------
    environment
        The topology in a virtual cluster.
    settings
        Length and seed of the training.

    Raises
    ------
    InputError
        Storm's own scheduler does not sustain the rate, so that rewards have no reference.
    """
    settings = settings or ControlSettings()
    if not np.isfinite(environment.latency_ms(environment.even, 1.0, 0)):
        message = "is more than Storm's own scheduler sustains, whose time of a tree rewards are relative to; lower it"
        raise InputError("problem", [Fault(message, "load")])
    learner = _Learner(environment.executors, environment.nodes, settings.seed)
    rng = np.random.default_rng(settings.seed)
    current = environment.even
    for number in range(settings.samples + settings.steps):
        if number % 500 == 0:
            log.info("%d of %d measurements", number, settings.samples + settings.steps)
        rate = float(rng.uniform(settings.lowest_rate, 1.0))
        state = state_of(current, environment.nodes, rate)
        if number < settings.samples:
            action = rng.integers(environment.nodes, size=environment.executors).astype(np.int32)
        else:
            done = (number - settings.samples) / max(settings.steps - 1, 1)
            action = learner.act(state, _EXPLORES + done * (_EXPLORES_LAST - _EXPLORES))
        next_state = state_of(action, environment.nodes, float(rng.uniform(settings.lowest_rate, 1.0)))
        learner.learn(state, one_hot(action, environment.nodes), environment.reward(action, rate), next_state)
        current = action
    components = environment.problem.topologies[0].executor_counts
    return Agent(learner.actor_network, learner.critic_network, components, environment.nodes, environment.rate_tps)


class _Learner:
    """Actor and critic with their targets, and the transitions they learn from; algorithm 1 of the paper."""

    def __init__(self, executors: int, nodes: int, seed: int) -> None:
        from sklearn.neural_network import MLPRegressor

        self._executors, self._nodes = executors, nodes
        self._rng = np.random.default_rng(seed + 1)
        size = executors * nodes
        settings: dict[str, Any] = {"hidden_layer_sizes": _UNITS, "activation": "tanh", "random_state": seed}
        self._actor, self._critic = MLPRegressor(**settings), MLPRegressor(**settings)
        self._actor.partial_fit(np.zeros((1, size + 1)), np.full((1, size), 1 / nodes))
        self._critic.partial_fit(np.zeros((1, 2 * size + 1)), np.array([-1.0]))
        self._target_actor, self._target_critic = copy.deepcopy(self._actor), copy.deepcopy(self._critic)
        self._buffer: deque[_Transition] = deque(maxlen=_BUFFER)

    @property
    def actor_network(self) -> NeuralNetwork:
        """The actor."""
        return _network(self._actor)

    @property
    def critic_network(self) -> NeuralNetwork:
        """The critic."""
        return _network(self._critic)

    def act(self, state: FloatArray, explores: float) -> IntArray:
        """Return the best rated assignment near the proposal, which is changed at random with a probability."""
        proposal = self.actor_network(state[None])[0]
        if self._rng.random() < explores:
            proposal = proposal + explores * self._rng.random(len(proposal))
        near = self._near(proposal)
        values = self.critic_network(np.concatenate([np.tile(state, (len(near), 1)), near], axis=1))[:, 0]
        best: IntArray = near[int(np.argmax(values))].reshape(self._executors, self._nodes).argmax(axis=1)
        return best.astype(np.int32)

    def learn(self, state: FloatArray, action: FloatArray, reward: float, next_state: FloatArray) -> None:
        """Remember a transition, and take one step with a batch."""
        self._buffer.append(_Transition(state, action, reward, next_state))
        if len(self._buffer) < _BATCH:
            return
        batch = [self._buffer[number] for number in self._rng.integers(len(self._buffer), size=_BATCH)]
        states, actions = (np.array([each[which] for each in batch]) for which in (0, 1))
        values = np.array([each.reward for each in batch]) + _DISCOUNT * self._best_values(batch)
        self._critic.partial_fit(np.concatenate([states, actions], axis=1), values)
        # A step of the proposal along ∇â Q(s, â) at â = f(s), which is what the policy gradient moves the actor by.
        proposals = self.actor_network(states)
        inputs = np.concatenate([states, proposals], axis=1)
        gradient = self.critic_network.input_gradient(inputs)[:, states.shape[1] :]
        self._actor.partial_fit(states, proposals + _STEP * gradient)
        for target, learned in ((self._target_actor, self._actor), (self._target_critic, self._critic)):
            for name in ("coefs_", "intercepts_"):
                for old, new in zip(getattr(target, name), getattr(learned, name), strict=True):
                    old += _TARGET_SHARE * (new - old)

    def _best_values(self, batch: Sequence[_Transition]) -> FloatArray:
        """Return the values of the best actions of next states, by the target networks."""
        states = np.array([each.next_state for each in batch])
        near = [self._near(proposal) for proposal in _network(self._target_actor)(states)]
        counts = [len(each) for each in near]
        inputs = np.concatenate([np.repeat(states, counts, axis=0), np.concatenate(near)], axis=1)
        values = _network(self._target_critic)(inputs)[:, 0]
        return np.maximum.reduceat(values, np.cumsum([0, *counts[:-1]]))

    def _near(self, proposal: FloatArray) -> FloatArray:
        found = nearest_assignments(proposal.reshape(self._executors, self._nodes), NEIGHBOURS)
        return np.array([one_hot(nodes, self._nodes) for nodes in found])


def _network(regressor: Any) -> NeuralNetwork:
    return NeuralNetwork(list(regressor.coefs_), list(regressor.intercepts_))
