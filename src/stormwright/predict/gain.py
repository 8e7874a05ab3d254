"""Gain in sustainable rate of a placement over the current one, and its uncertainty.

A prediction errs in four ways. Costs are known up to their errors, but both placements share them, so what counts is
the interval of the *ratio*, in which common errors cancel. The error of the model itself grows with the change of the
cost of a tree: over 201 pairs of recorded placements the logarithm of predicted by measured ratios deviated by 0.06
where the CPU of a tree was unchanged, and by a further 0.3 of the logarithm by which it changed, excluding measurement
noise (``docs/results/prediction-cells``). It also grows with the gain: over 31 comparisons of placements
(``docs/results/storm-decisions``) by a further 0.2 of its logarithm, and upwards by 0.4 where several topologies
run, and it errs for all candidates in the same direction. And where the model explains only a part of the CPU of what
runs, it is less certain about what the rest would do elsewhere (`stormwright.predict.fixed_point`).

And the best of many candidates is best partly by chance (J. E. Smith, R. L. Winkler, The Optimizer's Curse, Management
Science 52(3), 2006, https://doi.org/10.1287/mnsc.1050.0451): its gain is shrunk towards none as in their equation (2),
with true gains of candidates varying by 0.1 where the cost of a tree is unchanged (0.4 where several topologies run),
and by the whole logarithm by which it changes. Only errors that differ between candidates count there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, inf, isfinite, log

import numpy as np

from stormwright.model.arrays import FloatArray
from stormwright.predict.prediction import TopologyPrediction

#: Standard deviation of the logarithm of predicted by measured ratios: with unchanged cost of a tree, and relative to
#: the logarithm by which it changes.
SAME_COST, OTHER_COST = 0.06, 0.3

#: Standard deviation of logarithms of true gains among candidates, in the same terms, by whether several topologies
#: run.
SAME_COST_GAINS, OTHER_COST_GAINS = {False: 0.1, True: 0.4}, 1.0

#: Standard deviation of the logarithm of a gain that all candidates share: relative to the gain, downwards, and upwards
#: by whether several topologies run; and relative to the logarithm of the part of the CPU that is explained.
COMMON, COMMON_UP, UNEXPLAINED = 0.2, {False: 0.2, True: 0.4}, 0.3

#: Standard deviations of the 95 % interval, and of a one-sided 95 % bound.
TWO_SIDED, ONE_SIDED = 1.96, 1.645

#: The highest gain, in logarithms.
_MAX = 20.0


@dataclass(frozen=True, slots=True)
class RateGain:
    """The rate under a placement as a multiple of the rate under the current one.

    Parameters
    ----------
    value
        Predicted gain, corrected for optimism.
    predicted
        Predicted gain without correction.
    sd, up_sd
        Standard deviation of the logarithm of `value`, downwards and upwards.
    """

    value: float
    predicted: float
    sd: float
    up_sd: float = 0.0

    @property
    def low(self) -> float:
        """Lower end of the 95 % interval."""
        return self.value * exp(-TWO_SIDED * self.sd)

    @property
    def high(self) -> float:
        """Upper end of the 95 % interval."""
        return self.value * exp(TWO_SIDED * max(self.up_sd, self.sd))

    def capped(self, rate_tps: float, most_tps: float) -> RateGain:
        """Return the gain if rates above `most_tps` count for no more."""
        now = min(rate_tps, most_tps)
        value, predicted, surely = (
            min(rate_tps * each, most_tps) / now for each in (self.value, self.predicted, self.at_least)
        )
        return RateGain(value, predicted, log(value / surely) / ONE_SIDED if surely > 0 else self.sd)

    @property
    def at_least(self) -> float:
        """Value that the gain exceeds 19 times in 20."""
        return self.value * exp(-ONE_SIDED * self.sd)


def cost_change(cpu_now: FloatArray | float, cpu_new: FloatArray | float) -> FloatArray:
    """Return the change of the CPU of a tree, as the absolute value of a logarithm.

    Parameters
    ----------
    cpu_now, cpu_new
        CPU of a tree under both placements, in the same unit; arrays of the same shape or numbers. Where one is 0 the
        change is unknown.
    """
    now, new = np.asarray(cpu_now, np.float64), np.asarray(cpu_new, np.float64)
    both = (now > 0) & (new > 0)
    changed: FloatArray = np.abs(np.log(np.divide(new, now, out=np.ones(np.broadcast(now, new).shape), where=both)))
    return changed


def model_sd(change: FloatArray | float) -> FloatArray:
    """Return the standard deviation of the logarithm of a predicted ratio by the model alone, for a `cost_change`."""
    sd: FloatArray = np.hypot(SAME_COST, OTHER_COST * np.asarray(change))
    return sd


def common_sd(predicted: FloatArray | float, scale: FloatArray | float = 1.0, relative: float = COMMON) -> FloatArray:
    """Return the standard deviation of the logarithm of a gain by errors that all candidates share.

    Parameters
    ----------
    predicted
        The logarithm of the predicted ratio.
    scale
        Factor of the CPU of the topology, as in `stormwright.predict.costs.Correction`.
    relative
        Part of it relative to the gain.
    """
    sd: FloatArray = np.hypot(relative * np.abs(np.asarray(predicted)), UNEXPLAINED * np.abs(np.log(scale)))
    return sd


def rate_gain(now: TopologyPrediction, new: TopologyPrediction, *, shared: bool = False) -> RateGain:
    """Return the gain of a topology by a placement.

    Parameters
    ----------
    now, new
        Predictions under the current and the new placement, by the same costs.
    shared
        Whether other topologies run beside it.
    """
    old, other = now.reachable_tps, new.reachable_tps
    # Costs that are all low make both rates high, and costs that are all high make both low.
    logs = [_log_ratio(*pair) for pair in ((old.value, other.value), (old.low, other.low), (old.high, other.high))]
    change = float(cost_change(now.cpu_us, new.cpu_us))
    if not any(logs) and not change:
        return RateGain(1.0, 1.0, 0.0)  # it stays where it is
    of_costs = (max(logs) - min(logs)) / 2 / TWO_SIDED if all(map(isfinite, logs)) else 0.0
    return shrunk(logs[0], float(np.hypot(of_costs, model_sd(change))), change, scale=now.scale, shared=shared)


def shrunk(predicted: float, sd: float, change: float, *, scale: float = 1.0, shared: bool = False) -> RateGain:
    """Return a gain corrected for optimism.

    Parameters
    ----------
    predicted
        The logarithm of the predicted ratio; may be infinite.
    sd
        Standard deviation of `value` by errors that differ between candidates.
    change
        The `cost_change` that comes with it.
    scale
        CPU factor of the topology (`Correction.scale`): deviations from 1 increase the error.
    shared
        Whether other topologies run beside it.
    """
    if not isfinite(predicted):
        value = 0.0 if predicted < 0 else inf
        return RateGain(value, value, 0.0)
    part = float(_believed(np.asarray(predicted), np.asarray(sd), np.asarray(change), shared=shared))
    down, up = (
        float(np.hypot(sd * part**0.5, common_sd(predicted, scale, relative)))
        for relative in (COMMON, COMMON_UP[shared])
    )
    return RateGain(exp(min(predicted * part, _MAX)), exp(min(predicted, _MAX)), down, up)


def at_least(
    predicted: FloatArray,
    change: FloatArray,
    deviations: float = ONE_SIDED,
    *,
    scale: FloatArray | float = 1.0,
    shared: bool = False,
) -> FloatArray:
    """Return logarithms of gains corrected for optimism, minus `deviations` standard deviations of the model's error.

    Parameters
    ----------
    predicted, change
        As for `shrunk`, arrays of the same shape.
    deviations
        Number of standard deviations; 0 leaves the corrected gain.
    scale, shared
        CPU factor of each topology (`Correction.scale`), and whether other topologies run beside it.
    """
    sd = model_sd(change)
    part = _believed(predicted, sd, change, shared=shared)
    bound: FloatArray = predicted * part - deviations * np.hypot(sd * np.sqrt(part), common_sd(predicted, scale))
    return bound


def _believed(predicted: FloatArray, sd: FloatArray, change: FloatArray, *, shared: bool) -> FloatArray:
    """Return the expected true fraction of a predicted gain; 1 for a loss, which selection does not favour."""
    gains = np.hypot(SAME_COST_GAINS[shared], OTHER_COST_GAINS * change)
    part: FloatArray = np.where(predicted > 0, gains**2 / (gains**2 + sd**2), 1.0)
    return part


def together(gains: Sequence[RateGain], weights: Sequence[float]) -> RateGain:
    """Return the weighted geometric mean of gains; their errors are assumed to be common and do not average out."""
    whole = sum(weights)
    if not gains or not whole:
        return RateGain(1.0, 1.0, 0.0)

    def mean(name: str) -> float:
        values = [getattr(gain, name) for gain in gains]
        if min(values) <= 0:
            return 0.0
        return exp(sum(weight * log(value) for weight, value in zip(weights, values, strict=True)) / whole)

    sd, up_sd = (
        sum(weight * getattr(gain, name) for weight, gain in zip(weights, gains, strict=True)) / whole
        for name in ("sd", "up_sd")
    )
    return RateGain(mean("value"), mean("predicted"), sd, up_sd)


def _log_ratio(now: float, new: float) -> float:
    """Return the logarithm of a ratio of rates, either of which may be 0 or inf."""
    if new <= 0:
        return -inf
    if isfinite(now) and isfinite(new):
        return log(new / now) if now > 0 else inf
    return 0.0 if now == new else inf if isfinite(now) else -inf
