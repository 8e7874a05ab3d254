"""Cost of a tuple of each input stream of a component with several.

An executor's CPU is reported as a whole, and its tuples by input stream (`inputs` of a record). If the mix of streams
varies, over time or between workers, CPU = Σ cost · tuples identifies the costs. The prior is that all tuples of a
component cost the same, within the deviation below; if the mix never varies the estimate stays there, and no separate
costs are reported.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from stormwright.model.arrays import BoolArray, FloatArray
from stormwright.predict.calibration.least_squares import Moments, Prior, posterior
from stormwright.predict.calibration.windows import WorkerPart
from stormwright.predict.costs import InputWork

#: Prior deviation of the work of a tuple of one stream, relative to the component's mean.
_UNLIKE = 1.0

#: Significance level of separate costs; and the fraction of the prior uncertainty that must be removed.
_BY_CHANCE, _SETTLED = 1e-3, 0.5

#: Prior rows of the assumed noise, as in `least_squares`.
_ASSUMED_ROWS = 4.0

#: Least fraction of handled tuples with a reported stream: older probes report none.
_MIN_REPORTED = 0.98

#: Coefficients of executors that belong to no component and no stream: a message, a kB of it, time in which a thread
#: could run, and a time that it was given a core.
COMMON = 4

#: A stream by the component that it comes from and its name.
Input = tuple[str, str]


class _Row(NamedTuple):
    """Executors of a component in one worker over a window: rates (tuples/s) and µs/s of a core.

    `common` are the amounts of what has `COMMON` coefficients, shape (4,).
    """

    worker: str
    component: str
    tuples_tps: Mapping[Input, float]
    common: FloatArray
    cpu_us: float


@dataclass(frozen=True, eq=False)
class InputObservations:
    """Observations of one component.

    Parameters
    ----------
    inputs
        Input streams of the component.
    moments
        Of a tuple of each, then of the `COMMON` coefficients.
    tuples_tps
        Tuples/s of each stream, added up over rows, shape (I,).
    counted
        Number of rows that they count for among those of all components.
    """

    inputs: tuple[Input, ...]
    moments: Moments
    tuples_tps: FloatArray
    counted: float

    def __add__(self, other: InputObservations) -> InputObservations:
        inputs = tuple(sorted({*self.inputs, *other.inputs}))
        one, more = self._among(inputs), other._among(inputs)
        tuples_tps = one.tuples_tps + more.tuples_tps
        return InputObservations(inputs, one.moments + more.moments, tuples_tps, one.counted + more.counted)

    def scaled(self, by: float) -> InputObservations:
        """Return the observations of `by` times as many rows."""
        moments = self.moments.scaled(by)
        return replace(self, moments=moments, tuples_tps=by * self.tuples_tps, counted=by * self.counted)

    def _among(self, inputs: tuple[Input, ...]) -> InputObservations:
        """Return the observations with coefficients for more streams."""
        if inputs == self.inputs:
            return self
        own, tuples = [inputs.index(each) for each in self.inputs], np.zeros(len(inputs))
        tuples[own] = self.tuples_tps
        moments = self.moments.at([*own, *range(len(inputs), len(inputs) + COMMON)])
        return InputObservations(inputs, moments, tuples, self.counted)

    def work(self, common: FloatArray) -> tuple[InputWork, ...]:
        """Return the work of a tuple of each stream, in µs; the mean for all that are not identified.

        Parameters
        ----------
        common
            Fitted coefficients that all executors have in common, shape (4,).
        """
        values, identified, _ = self._fitted(common)
        parts = self.tuples_tps / max(float(self.tuples_tps.sum()), 1e-300)
        each = zip(self.inputs, values.tolist(), parts.tolist(), identified.tolist(), strict=True)
        return tuple(InputWork(*source_stream, us, part, apart) for source_stream, us, part, apart in each)

    def explains(self, common: FloatArray) -> float:
        """Return the reduction of the squared residuals of all components by separate costs."""
        return self._fitted(common)[2] * self.counted / max(self.moments.rows, 1e-300)

    def _fitted(self, common: FloatArray) -> tuple[FloatArray, BoolArray, float]:
        """Return costs, which of them are identified, and the reduction of squared residuals."""
        moments, count = self.moments.given(common), len(self.inputs)
        handled = moments.xtx.sum()
        alike = max(float(moments.xty.sum() / handled), 0.0) if handled > 0 else 0.0
        same, none = np.full(count, alike), np.zeros(count, dtype=bool)
        if count < 2 or alike == 0:
            return same, none, 0.0
        found = posterior(moments, Prior(same, _UNLIKE * same))
        better = moments.squares(same) - moments.squares(found.value)
        if not self._is_significant(moments, found.value, better):
            return same, none, 0.0
        deviation = np.sqrt(np.maximum(np.diag(found.covariance), 0.0))
        return found.value, deviation <= (1 - _SETTLED) * _UNLIKE * alike, better

    @staticmethod
    def _is_significant(moments: Moments, values: FloatArray, better: float) -> bool:
        """Return whether separate costs explain significantly more than the same cost for all."""
        from scipy.special import chdtri  # takes longer to import than the rest

        left = moments.squares(values) + _ASSUMED_ROWS
        noise = left / (max(moments.rows - len(values), 0.0) + _ASSUMED_ROWS)
        return bool(better / noise > chdtri(len(values) - 1, _BY_CHANCE))

    def as_list(self) -> list[Any]:
        """Return the observations for JSON."""
        named = [list(each) for each in self.inputs]
        return [named, *self.moments.as_list(), self.tuples_tps.tolist(), self.counted]

    @classmethod
    def from_list(cls, listed: Sequence[Any]) -> InputObservations:
        """Restore observations from the result of `as_list`.

        Raises
        ------
        KeyError, TypeError, ValueError
            It is damaged.
        """
        named, *moments, tuples, counted = listed
        inputs = tuple((str(source), str(stream)) for source, stream in named)
        found = np.array(tuples, dtype=np.float64).reshape(len(inputs))
        if not np.all(np.isfinite([*found, float(counted)])):
            raise ValueError("a number is not finite")
        return cls(inputs, Moments.from_list(moments, len(inputs) + COMMON), found, float(counted))


def row_of(
    worker: object, component: str, part: WorkerPart, length_s: float, common: FloatArray, cpu_us: float
) -> _Row:
    """Return the row of a part of a worker; without streams if the report of its streams is incomplete.

    Parameters
    ----------
    worker, component
        Worker and component of the row.
    part
        Part of one window.
    length_s
        Length of the window, in s.
    common, cpu_us
        Amounts of the common coefficients, shape (4,), and CPU in µs/s of a core.
    """
    rates = {each: tuples / length_s for each, tuples in part.by_input.items()}
    whole = sum(part.by_input.values()) >= _MIN_REPORTED * part.handled
    return _Row(str(worker), component, rates if whole else {}, common, cpu_us)


def by_input(
    rows: Iterable[_Row], noise: tuple[float, float], common: Prior, each: float
) -> dict[str, InputObservations]:
    """Return the observations of rows, by component; only components with several input streams.

    Parameters
    ----------
    rows
        Rows of one topology.
    noise
        Assumed noise of a row: a constant part, and one relative to the row.
    common
        Prior of the costs that executors have in common.
    each
        Number of rows that one row counts for among those of all components.
    """
    of_component: dict[str, list[_Row]] = defaultdict(list)
    for row in rows:
        if row.tuples_tps:
            of_component[row.component].append(row)
    found = {}
    for component, own in sorted(of_component.items()):
        inputs = tuple(sorted({each for row in own for each in row.tuples_tps}))
        if len(inputs) > 1:
            found[component] = replace(_by_input(inputs, own, noise, common), counted=each * len(own))
    return found


def _by_input(
    inputs: tuple[Input, ...], rows: list[_Row], noise: tuple[float, float], common: Prior
) -> InputObservations:
    tuples = np.array([[row.tuples_tps.get(each, 0.0) for each in inputs] for row in rows])
    cpu = np.array([row.cpu_us for row in rows])
    alike = max(float(cpu.sum() / max(tuples.sum(), 1e-300)), 1e-9)
    same = np.full(len(inputs), alike)
    prior = Prior(np.concatenate([same, common.mean]), np.concatenate([_UNLIKE * same, common.deviation]))
    x = np.column_stack([tuples, [row.common for row in rows]])
    clusters = np.array([row.worker for row in rows])
    moments = Moments.of(x, cpu, noise[0] + noise[1] * np.abs(cpu), clusters, prior)
    return InputObservations(inputs, moments, tuples.sum(axis=0), float(len(rows)))


def added(one: Mapping[str, InputObservations], other: Mapping[str, InputObservations]) -> dict[str, InputObservations]:
    """Return the sum of both, by component."""
    found = dict(one)
    for component, more in other.items():
        found[component] = found[component] + more if component in found else more
    return found


def scaled(observations: Mapping[str, InputObservations], by: float) -> dict[str, InputObservations]:
    """Return the observations of `by` times as many rows."""
    return {component: each.scaled(by) for component, each in observations.items()}
