"""Metric families of Prometheus' client, with the names and labels of the service's metrics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

#: By the values of the labels.
Samples = Mapping[Any, float | None]


def gauge(name: str, text: str, labels: tuple[str, ...], samples: Samples) -> Metric:
    """A figure that rises and falls.

    Parameters
    ----------
    name, text
        Without the ``stormwright_`` that all begin with; what it says.
    labels
        Names of the labels, in the order of the samples' keys.
    samples
        By the values of the labels; those that are None are left out.
    """
    return _filled(GaugeMetricFamily(f"stormwright_{name}", text, labels=labels), samples)


def counter(name: str, text: str, labels: tuple[str, ...], samples: Samples) -> Metric:
    """A figure that only rises, and begins again with the service.

    Parameters
    ----------
    name, text, labels, samples
        As of a gauge; Prometheus adds ``_total`` to the name.
    """
    return _filled(CounterMetricFamily(f"stormwright_{name}", text, labels=labels), samples)


def quantiles(name: str, text: str, labels: tuple[str, ...], samples: Samples) -> Metric:
    """Return a summary that consists of quantiles only: Prometheus reserves the label ``quantile`` for summaries.

    Parameters
    ----------
    name, text
        As of a gauge.
    labels
        Their names, without ``quantile``.
    samples
        By the values of the labels, followed by the quantile; those that are None are left out.
    """
    family = Metric(f"stormwright_{name}", text, "summary")
    for values, value in samples.items():
        if value is not None:
            family.add_sample(family.name, dict(zip((*labels, "quantile"), values, strict=True)), value)
    return family


def _filled(
    family: GaugeMetricFamily | CounterMetricFamily, samples: Samples
) -> GaugeMetricFamily | CounterMetricFamily:
    for labels, value in samples.items():
        if value is not None:
            family.add_metric(labels, value)
    return family
