"""Effects of changes beyond the prediction of the model, as learned from trials.

The logarithm of a measured multiple over the predicted one is linear in the features of a change, with a coefficient
for each that varies between topologies. So the trials of other topologies count for this one, and its own more. The
posterior of such a model is in closed form (C. E. Rasmussen, C. K. I. Williams, Gaussian Processes for Machine
Learning, 2006, section 2.1, ISBN 026218253X).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log
from typing import Any, Final, NamedTuple

import numpy as np

from stormwright.controller.tuning.knobs import PARKS_KEY, ConfigChange
from stormwright.model import Topology
from stormwright.model.arrays import is_amount
from stormwright.model.batches import MAX_SPOUT_PENDING
from stormwright.model.requests import ACKER
from stormwright.predict.polling import Waits


class EffectPrior(NamedTuple):
    """Coefficient of a feature before any trial: its mean, its standard deviation, and that between topologies."""

    mean: float
    sd: float
    between: float


#: Features: logarithms of multiples, whether idle threads sleep at once, and the logarithm of the predicted multiple of
#: another placement. More pending trees bring something even where the model sees none of it, and of placements comes
#: less than predicted; of the rest the model is right in the mean (docs/results/storm-knobs.md).
PRIORS: Final[Mapping[str, EffectPrior]] = {
    "bolts": EffectPrior(0.0, 0.2, 0.1),
    "spouts": EffectPrior(0.0, 0.2, 0.1),
    "ackers": EffectPrior(0.0, 0.15, 0.1),
    "pending": EffectPrior(0.2, 0.15, 0.1),
    "asleep": EffectPrior(0.0, 0.15, 0.1),
    "placed": EffectPrior(-0.5, 0.3, 0.2),
}

#: Standard deviation of what no feature tells, and of a measurement without an interval.
_UNTOLD, _UNKNOWN = 0.05, 0.2


class LogEffect(NamedTuple):
    """A logarithm of a multiple: mean and standard deviation."""

    mean: float
    sd: float


class Outcome(NamedTuple):
    """Outcome of a trial: features, predicted and measured multiple of a quantity, and the error of its logarithm."""

    topology: str
    features: Mapping[str, float]
    predicted: float
    measured: float
    sd: float | None
    quantity: str = "throughput"


def features_of(topology: Topology, change: ConfigChange, defaults: Mapping[str, Any]) -> dict[str, float]:
    """Return the features of a change that are not zero.

    Parameters
    ----------
    topology
        The topology before it.
    change
        Change of its executors and configuration.
    defaults
        Configuration of the cluster.
    """
    before = topology.executor_counts
    after = {**before, **change.executors}
    of_type = {each.id: each.type for each in topology.components}
    groups = {
        "bolts": [each for each in before if of_type[each] == "bolt" and not each.startswith("__")],
        "spouts": [each for each in before if of_type[each] == "spout" and not each.startswith("__")],
        "ackers": [each for each in before if each == ACKER],
    }
    found = {
        name: log(sum(after[each] for each in of) / sum(before[each] for each in of)) if of else 0.0
        for name, of in groups.items()
    }
    old, new = ({**defaults, **topology.conf, **more} for more in ({}, change.conf))
    one, other = (conf.get(MAX_SPOUT_PENDING) for conf in (old, new))
    if is_amount(one) and is_amount(other) and min(one, other) > 0:
        found["pending"] = log(other / one)
    if PARKS_KEY in change.conf:
        found["asleep"] = float(Waits.of(old, spout=False).parks > 0) - float(Waits.of(new, spout=False).parks > 0)
    return {name: value for name, value in found.items() if value}


class Effects:
    """Effects by all trials so far.

    Parameters
    ----------
    outcomes
        Trials of all topologies.
    topology
        Name of the topology that is tuned: its own trials count more.
    """

    def __init__(self, outcomes: Sequence[Outcome], topology: str) -> None:
        names = list(PRIORS)
        prior = np.array([PRIORS[name] for name in names])
        mean, common, between = prior.T
        rows = np.array([_row(each.features) for each in outcomes]).reshape(-1, len(names))
        own = np.array([each.topology == topology for each in outcomes], dtype=bool)
        # Own coefficients = common ones + the deviation of this topology, so (w, d) with rows (x, x) of own trials.
        whole = np.hstack([rows, rows * own[:, None]])
        residual = np.array([log(each.measured / each.predicted) for each in outcomes]) - rows @ mean
        noise = np.array([_UNKNOWN if each.sd is None else each.sd for each in outcomes]) ** 2 + _UNTOLD**2
        noise = noise + np.where(own, 0.0, rows**2 @ between**2)
        precision = np.diag(1 / np.concatenate([common, between]) ** 2) + (whole.T / noise) @ whole
        self._covariance = np.linalg.inv(precision)  # (2.8) of the book
        self._mean = self._covariance @ (whole.T / noise) @ residual + np.concatenate([mean, 0.0 * mean])

    def of(self, features: Mapping[str, float]) -> LogEffect:
        """Return the logarithm of the multiple by which a change does better than the model predicts."""
        row = np.tile(_row(features), 2)
        variance = float(row @ self._covariance @ row) + _UNTOLD**2
        return LogEffect(float(row @ self._mean), variance**0.5)


def _row(features: Mapping[str, float]) -> list[float]:
    return [features.get(name, 0.0) for name in PRIORS]
