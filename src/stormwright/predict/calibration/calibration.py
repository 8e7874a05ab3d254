"""Fit costs and corrections of topologies, with intervals, to the evidence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from math import exp, hypot, inf
from statistics import median_high
from typing import Any

import numpy as np

from stormwright.model.arrays import FloatArray
from stormwright.predict.calibration.evidence import _SOME_HZ, GARBAGE_DEVIATION, Evidence, TopologyEvidence
from stormwright.predict.calibration.least_squares import Estimate, Moments, Prior, posterior
from stormwright.predict.calibration.regression import Priors, rows_of
from stormwright.predict.calibration.windows import CpuQuota, Window
from stormwright.predict.costs import Correction, CostRange, Costs, FitRange, LearnedScale

#: Standard deviations of a normal distribution in a 95 % half-width.
_DEVIATIONS = 1.96

#: Relative prior deviations: of the common factor of cores, of each cost of a message, of serialisation by the tuple
#: and of all costs by the kB, of base costs. Together a message is known to some 30 %.
_COMMON, _MESSAGE, _SERIALISE, _BY_SIZE, _THERE = 0.12, 0.12, 0.5, 0.5, 0.3

#: Prior base cost of messaging threads, in cores, and its deviation.
_MESSAGING_THERE = (0.015, 0.01)

#: Prior of the CPU of idle threads, as a fraction of their time, and of a poll, in µs, each with its deviation.
_SPIN, _POLL_US = (0.01, 0.015), (10.0, 6.0)

#: Relative prior deviation of the bytes that a message adds; that of link traffic without messages, in bytes/s; of the
#: factor of a topology's messages.
_OVERHEAD, _LINK_BYTES, _OF_TOPOLOGY = 0.3, 2e4, 0.1

#: Polls of an idle thread of a full node, each second.
_POLLS_PER_S = 2_800.0

#: Limits of an error: that of a single window, and a value that leaves some cost. Messages of one placement predict
#: those of another one no better than the lower limit, however many there are: on nodes of part of a core, under ten
#: topologies, the CPU of messaging threads came out 13 % off in the median.
_MIN_ERROR, _MAX_ERROR, _MIN_MESSAGE_ERROR = 0.01, 0.95, 0.13

#: Assumed noise of a row of executors (`rows`), relative.
_WORK_NOISE = 0.03

#: Size in kB of a message without any observation.
_KILOBYTES = 0.1

_MESSAGING = ("send_us", "send_us_per_kb", "receive_us", "receive_us_per_kb")
_EXECUTORS = ("serialise_us", "serialise_us_per_kb", "spin_share", "poll_us")


@dataclass(frozen=True, slots=True)
class Figure:
    """A fitted cost.

    Parameters
    ----------
    value, low, high
        The estimate and its 95 % interval.
    learned
        Fraction of the prior uncertainty that the records have removed: 0 for a figure that is still the prior.
    """

    value: float
    low: float
    high: float
    learned: float


@dataclass(frozen=True)
class Calibration:
    """Fitted costs.

    Parameters
    ----------
    costs, corrections
        Costs, and corrections by topology id, for predictions.
    figures
        Name of the cost → figure with its interval.
    reference_hz
        Speed of the core in whose time costs are given; None if no record reports a speed.
    speeds
        Supervisor id → speed of its cores as a multiple of that.
    minutes, workers
        Amount of data: stretches of time, and windows of workers in them.
    """

    costs: Costs = field(default_factory=Costs)
    corrections: Mapping[str, Correction] = field(default_factory=dict)
    figures: Mapping[str, Figure] = field(default_factory=dict)
    reference_hz: float | None = None
    speeds: Mapping[str, float] = field(default_factory=dict)
    minutes: int = 0
    workers: int = 0

    def as_dict(self) -> dict[str, Any]:
        """Return the calibration for JSON."""
        return {**asdict(self), "corrections": {name: one.as_dict() for name, one in self.corrections.items()}}


def priors(costs: Costs | None = None) -> Priors:
    """Return the priors: the default costs, with their errors."""
    costs = costs or Costs()
    of_messages = np.array([*(getattr(costs, name) for name in _MESSAGING), _MESSAGING_THERE[0]])
    of_executors = np.array([costs.serialise_us, costs.serialise_us_per_kb, _SPIN[0], _POLL_US[0]])
    by = np.array([_MESSAGE, _BY_SIZE, _MESSAGE, _BY_SIZE, 0.0]) * of_messages
    by[-1] = _MESSAGING_THERE[1]
    return Priors(
        messaging=Prior(of_messages, by, _COMMON),
        others=Prior(np.array([0.0, costs.worker_cores]), np.array([GARBAGE_DEVIATION, _THERE * costs.worker_cores])),
        executors=Prior(
            of_executors,
            np.array([_SERIALISE * of_executors[0], _BY_SIZE * of_executors[1], _SPIN[1], _POLL_US[1]]),
        ),
        wire=Prior(np.array([costs.overhead_bytes, 0.0]), np.array([_OVERHEAD * costs.overhead_bytes, _LINK_BYTES])),
    )


def calibrated(known: Evidence) -> Calibration:
    """Return the costs that fit the evidence best; the prior dominates where there is little evidence."""
    if not known.workers:
        return Calibration()
    before, default = priors(), Costs()
    there = Prior(before.others.mean[1:], before.others.deviation[1:])
    pooled = [
        sum((moments[row] for moments in [one.of_cluster() for one in known.topologies.values()]), known.of_gone[row])
        for row in range(3)
    ]
    messaging, others, executors = (
        posterior(moments, prior)
        for moments, prior in zip(pooled, (before.messaging, there, before.executors), strict=True)
    )
    wire = posterior(known.wire, before.wire)
    figures = {
        **_figures(_MESSAGING, messaging, before.messaging),
        "worker_cores": _of_worker(known, others, there, messaging),
        **_figures(_EXECUTORS, executors, before.executors),
        **_figures(("overhead_bytes",), wire, before.wire),
    }
    if known.counts_polls:
        figures["spin_share"] = _times(figures["poll_us"], 1e-6 * _POLLS_PER_S)
    else:
        # A thread that works does not spin: rows measure its work without that part.
        spins = min(figures["spin_share"].value, _MAX_ERROR)
        figures |= {name: _times(figures[name], 1 / (1 - spins)) for name in _EXECUTORS[:2]}
        figures["poll_us"] = Figure(0.0, 0.0, 0.0, 0.0)
    values = {name: figure.value for name, figure in figures.items()}
    values["spin_share"] = min(values["spin_share"], _MAX_ERROR)
    corrections = {
        name: _correction(one, messaging, others, executors) for name, one in sorted(known.topologies.items())
    }
    errors = [one.error for one in corrections.values() if one.error is not None]
    utilisation = known.utilisation or CostRange(0.0, inf)
    held = _held(known.held.values())
    costs = Costs(
        **values,
        local_hop_us=default.local_hop_us,
        remote_hop_us=default.remote_hop_us,
        **(held._asdict() if held else {}),
        work_error=max(errors, default=default.work_error),
        message_error=_message_error(known, messaging, executors, wire),
        delay_error=default.delay_error,
        fitted_in=FitRange(utilisation, {name: one.rate_tps for name, one in known.topologies.items()}),
    )
    found = Calibration(
        costs,
        corrections,
        figures,
        known.reference_hz,
        {node: hz / known.reference_hz for node, hz in sorted(known.core_hz.items())} if known.reference_hz else {},
        known.minutes,
        known.workers,
    )
    return with_scales(found, known.scales)


def with_scales(found: Calibration, scales: Mapping[str, LearnedScale]) -> Calibration:
    """Return a calibration with the learned scales of topologies, by id."""
    corrections = {
        name: replace(one, scale=exp(scales[name].log)) if name in scales else one
        for name, one in found.corrections.items()
    }
    return replace(found, corrections=corrections)


def _held(nodes: Collection[CpuQuota]) -> CpuQuota | None:
    """Return the quota that holds for most nodes; None without any report."""
    if not nodes:
        return None
    return CpuQuota(*(median_high(each) for each in zip(*nodes, strict=True)))


def _figures(names: tuple[str, ...], estimate: Estimate, prior: Prior) -> dict[str, Figure]:
    half, variance_ratio = estimate.half_width(), np.diag(estimate.covariance) / np.diag(prior.covariance)
    return {
        name: Figure(
            float(estimate.value[i]),
            float(max(estimate.value[i] - half[i], 0.0)),
            float(estimate.value[i] + half[i]),
            float(np.clip(1.0 - np.sqrt(variance_ratio[i]), 0.0, 1.0)),
        )
        for i, name in enumerate(names)
    }


def _of_worker(known: Evidence, others: Estimate, prior: Prior, messaging: Estimate) -> Figure:
    """Return the base CPU of a worker; if messages were observed, including that of its messaging threads."""
    (alone,) = _figures(("",), others, prior).values()
    if not any(one.messages for one in known.topologies.values()):
        return alone
    half = hypot(alone.high - alone.value, float(messaging.half_width()[-1]))
    value = alone.value + float(messaging.value[-1])
    return Figure(value, max(value - half, 0.0), value + half, alone.learned)


def _times(figure: Figure, factor: float) -> Figure:
    return Figure(figure.value * factor, figure.low * factor, figure.high * factor, figure.learned)


def _message_error(known: Evidence, messaging: Estimate, executors: Estimate, wire: Estimate) -> float:
    """Return the half-width of the relative error of a message of the observed size: of CPU or bytes on the wire."""
    sampled = sum(one.messages for one in known.topologies.values())
    size = sum(one.message_bytes for one in known.topologies.values()) / sampled / 1e3 if sampled else _KILOBYTES
    carried, serialised = np.array([1.0, size, 1.0, size, 0.0]), np.array([1.0, size, 0.0, 0.0])
    cost = carried @ messaging.value + serialised @ executors.value
    half = hypot(messaging.half_width(carried), executors.half_width(serialised))
    on_wire = 1e3 * size + wire.value[0]
    if cost <= 0 or on_wire <= 0:
        return _MAX_ERROR
    error = max(half / cost, wire.half_width()[0] / on_wire)
    return float(np.clip(error, _MIN_MESSAGE_ERROR, _MAX_ERROR))


def _correction(one: TopologyEvidence, messaging: Estimate, others: Estimate, executors: Estimate) -> Correction:
    """Return the deviations of a topology: garbage of its work, cost of its messages, the noise of its work."""
    garbage = _own(one.others, others)
    by_message = np.array([1.0, 1.0, 1.0, 1.0, 0.0]) * messaging.value
    carried = one.messaging.xtx @ by_message @ by_message / messaging.noise
    rest = one.messaging.xty - one.messaging.xtx @ (messaging.value - by_message)
    matched = rest @ by_message / messaging.noise
    tight = _OF_TOPOLOGY**-2
    work = _work_us(one, executors)
    # A component without tuples has no work, and one whose CPU was all polls none that is known.
    fitted = {name: us for name, us in zip(one.components, work.tolist(), strict=True) if us > 0}
    noise = _noise_of_work(one, executors, work)
    error = _DEVIATIONS * _WORK_NOISE * noise**0.5
    return Correction(
        work=1.0 + garbage,
        messages=float((matched + tight) / (carried + tight)),
        error=float(np.clip(error, _MIN_ERROR, _MAX_ERROR)),
        inputs={component: row.work(executors.value) for component, row in sorted(one.inputs.items())},
        tuple_us=fitted if one.counts_polls else {},
    )


def _own(moments: Moments, common: Estimate) -> float:
    """Return the first coefficient, given the one that topologies have in common."""
    tight = GARBAGE_DEVIATION**-2
    explained = moments.xty[0] - moments.xtx[0, 1] * common.value[0]
    return float(max(explained / common.noise, 0.0) / (moments.xtx[0, 0] / common.noise + tight))


def _work_us(one: TopologyEvidence, common: Estimate) -> FloatArray:
    """Return the best-fitting work of a tuple of each component, in µs, given the costs that all have in common."""
    moments, count = one.executors, len(one.components)
    left = moments.xty[:count] - moments.xtx[:count, count:] @ common.value
    return np.linalg.lstsq(moments.xtx[:count, :count], left, rcond=None)[0].astype(np.float64)


def _noise_of_work(one: TopologyEvidence, common: Estimate, work: FloatArray) -> float:
    """Return the variance of rows around this work of a tuple, relative to the assumed variance."""
    moments, count = one.executors, len(one.components)
    squares = moments.squares(np.concatenate([work, common.value]))
    squares = max(squares - sum(row.explains(common.value) for row in one.inputs.values()), 0.0)
    return (squares + 1.0) / (max(moments.rows - count, 0.0) + 1.0)


def learn(known: Evidence, windows: Sequence[Window]) -> int:
    """Add windows to the evidence, as one minute.

    Parameters
    ----------
    known
        Evidence, changed in place.
    windows
        Windows of about a minute, all of them later than those of previous calls.

    Returns
    -------
    workers
        Usable windows of workers; 0 if none was warm and covered for long enough, and then nothing is changed.
    """
    reported = Counter(sums.core_hz for window in windows for sums in window.workers.values() if sums.core_hz)
    if known.reference_hz is None and reported:
        # Of several that are equally frequent the fastest.
        known.reference_hz = max(reported, key=lambda hz: (reported[hz], hz))
    rows = rows_of(windows, known.reference_hz or _SOME_HZ, priors())
    if rows.workers:
        known.add(rows)
    return rows.workers
