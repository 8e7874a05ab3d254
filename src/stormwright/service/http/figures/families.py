"""Metrics as Prometheus' client has them, under the names and with the labels that ours have."""

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
        Their names.
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


def _filled(
    family: GaugeMetricFamily | CounterMetricFamily, samples: Samples
) -> GaugeMetricFamily | CounterMetricFamily:
    for labels, value in samples.items():
        if value is not None:
            family.add_metric(labels, value)
    return family
