"""What a tuple of each stream takes in the component that it comes to: of those to which several come.

An executor's CPU is told as a whole, and its tuples by the stream that they came by (`inputs` of a record). Where the
mix of streams varies, over time or from worker to worker, CPU = Σ cost · tuples tells the costs apart. Before anything
is seen all tuples of a component are taken to cost the same, as far off as that may be; so where the mix is always the
same they still do, and nothing is said of them.
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

#: Deviation of what a tuple of one stream takes, in parts of what one of the component takes in the mean.
_UNLIKE = 1.0

#: How likely a difference may be by chance that is told; and the part of what was uncertain that has to be settled.
_BY_CHANCE, _SETTLED = 1e-3, 0.5

#: Rows that the assumed noise counts for beside those that were seen, as in `moments`.
_ASSUMED_ROWS = 4.0

#: Tuples of streams that are told, of all that were handled: probes of before told none.
_LEAST_TOLD = 0.98

#: Coefficients that belong to no stream: a message, a kB of it, idle time.
_COMMON = 3

#: A stream by the component that it comes from and its name.
Input = tuple[str, str]


class _Row(NamedTuple):
    """Executors of a component in one worker over a window: rates (tuples/s) and µs/s of a core.

    `common` are messages and kB that they sent, and the time in which they could run, shape (3,).
    """

    worker: str
    component: str
    tuples_tps: Mapping[Input, float]
    common: FloatArray
    cpu_us: float


@dataclass(frozen=True, eq=False)
class ByInput:
    """What was seen of one component.

    Parameters
    ----------
    inputs
        Streams that came to it.
    moments
        Of a tuple of each, then of a message, a kB of it, and of the time that threads could run.
    tuples_tps
        Of each, added up over rows, shape (I,).
    counted
        For how many rows the same ones count among those of all components.
    """

    inputs: tuple[Input, ...]
    moments: Moments
    tuples_tps: FloatArray
    counted: float

    def __add__(self, other: ByInput) -> ByInput:
        inputs = tuple(sorted({*self.inputs, *other.inputs}))
        one, more = self._among(inputs), other._among(inputs)
        tuples_tps = one.tuples_tps + more.tuples_tps
        return ByInput(inputs, one.moments + more.moments, tuples_tps, one.counted + more.counted)

    def scaled(self, by: float) -> ByInput:
        """As if there had been `by` times as many rows."""
        moments = self.moments.scaled(by)
        return replace(self, moments=moments, tuples_tps=by * self.tuples_tps, counted=by * self.counted)

    def _among(self, inputs: tuple[Input, ...]) -> ByInput:
        """The same with coefficients for more streams."""
        if inputs == self.inputs:
            return self
        own, tuples = [inputs.index(each) for each in self.inputs], np.zeros(len(inputs))
        tuples[own] = self.tuples_tps
        moments = self.moments.at([*own, *range(len(inputs), len(inputs) + _COMMON)])
        return ByInput(inputs, moments, tuples, self.counted)

    def work(self, common: FloatArray) -> tuple[InputWork, ...]:
        """What a tuple of each stream takes, in µs; the same for all that cannot be told apart.

        Parameters
        ----------
        common
            What all executors have in common, as it was fitted, shape (3,).
        """
        values, told, _ = self._fitted(common)
        parts = self.tuples_tps / max(float(self.tuples_tps.sum()), 1e-300)
        each = zip(self.inputs, values.tolist(), parts.tolist(), told.tolist(), strict=True)
        return tuple(InputWork(*of, us, part, apart) for of, us, part, apart in each)

    def explains(self, common: FloatArray) -> float:
        """By how much less the squared residuals of all components add up to, where tuples are told apart."""
        return self._fitted(common)[2] * self.counted / max(self.moments.rows, 1e-300)

    def _fitted(self, common: FloatArray) -> tuple[FloatArray, BoolArray, float]:
        """Costs, which of them are told apart, and by how much less squared residuals add up to."""
        moments, count = self.moments.given(common), len(self.inputs)
        handled = moments.xtx.sum()
        alike = max(float(moments.xty.sum() / handled), 0.0) if handled > 0 else 0.0
        same, none = np.full(count, alike), np.zeros(count, dtype=bool)
        if count < 2 or alike == 0:
            return same, none, 0.0
        found = posterior(moments, Prior(same, _UNLIKE * same))
        better = moments.squares(same) - moments.squares(found.value)
        if not self._is_told(moments, found.value, better):
            return same, none, 0.0
        deviation = np.sqrt(np.maximum(np.diag(found.covariance), 0.0))
        return found.value, deviation <= (1 - _SETTLED) * _UNLIKE * alike, better

    @staticmethod
    def _is_told(moments: Moments, values: FloatArray, better: float) -> bool:
        """Whether costs of their own explain so much more than the same for all that it is hardly by chance."""
        from scipy.special import chdtri  # takes longer to import than the rest

        left = moments.squares(values) + _ASSUMED_ROWS
        noise = left / (max(moments.rows - len(values), 0.0) + _ASSUMED_ROWS)
        return bool(better / noise > chdtri(len(values) - 1, _BY_CHANCE))

    def as_list(self) -> list[Any]:
        """Itself for JSON."""
        named = [list(each) for each in self.inputs]
        return [named, *self.moments.as_list(), self.tuples_tps.tolist(), self.counted]

    @classmethod
    def from_list(cls, told: Sequence[Any]) -> ByInput:
        """What `as_list` told.

        Raises
        ------
        KeyError, TypeError, ValueError
            It is damaged.
        """
        named, *moments, tuples, counted = told
        inputs = tuple((str(source), str(stream)) for source, stream in named)
        found = np.array(tuples, dtype=np.float64).reshape(len(inputs))
        if not np.all(np.isfinite([*found, float(counted)])):
            raise ValueError("a number is not finite")
        return cls(inputs, Moments.from_list(moments, len(inputs) + _COMMON), found, float(counted))


def row_of(
    worker: object, component: str, part: WorkerPart, length_s: float, common: FloatArray, cpu_us: float
) -> _Row:
    """What a part of a worker tells of its streams; with none of them where it tells not of all.

    Parameters
    ----------
    worker, component
        Whose it is.
    part
        Of one window.
    length_s
        Of the window, in s.
    common, cpu_us
        As in `_Row`.
    """
    told = {each: tuples / length_s for each, tuples in part.by_input.items()}
    whole = sum(part.by_input.values()) >= _LEAST_TOLD * part.handled
    return _Row(str(worker), component, told if whole else {}, common, cpu_us)


def by_input(rows: Iterable[_Row], noise: tuple[float, float], common: Prior, each: float) -> dict[str, ByInput]:
    """What rows tell, by component; of components to which several streams come.

    Parameters
    ----------
    rows
        Of one topology.
    noise
        Of a row, that is assumed: a constant part, and one in parts of the row.
    common
        What is likely of the costs that executors have in common.
    each
        For how many rows one counts among those of all components.
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


def _by_input(inputs: tuple[Input, ...], rows: list[_Row], noise: tuple[float, float], common: Prior) -> ByInput:
    tuples = np.array([[row.tuples_tps.get(each, 0.0) for each in inputs] for row in rows])
    cpu = np.array([row.cpu_us for row in rows])
    alike = max(float(cpu.sum() / max(tuples.sum(), 1e-300)), 1e-9)
    same = np.full(len(inputs), alike)
    prior = Prior(np.concatenate([same, common.mean]), np.concatenate([_UNLIKE * same, common.deviation]))
    x = np.column_stack([tuples, [row.common for row in rows]])
    clusters = np.array([row.worker for row in rows])
    moments = Moments.of(x, cpu, noise[0] + noise[1] * np.abs(cpu), clusters, prior)
    return ByInput(inputs, moments, tuples.sum(axis=0), float(len(rows)))


def added(one: Mapping[str, ByInput], other: Mapping[str, ByInput]) -> dict[str, ByInput]:
    """Both together, by component."""
    found = dict(one)
    for component, more in other.items():
        found[component] = found[component] + more if component in found else more
    return found


def scaled(of: Mapping[str, ByInput], by: float) -> dict[str, ByInput]:
    """As if there had been `by` times as many rows."""
    return {component: each.scaled(by) for component, each in of.items()}
