"""Hypothesis strategies for measured loads.

Each draw takes Hypothesis some 0.1 ms, and there are hundreds of numbers: so rows of them come from the bytes of one.
"""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from stormwright.model import Topology, TopologyLoad
from stormwright.model.arrays import FloatArray, IntArray

_PART = st.sampled_from([1, 3])
_FLOWING = ("shuffle", "none", "local_or_shuffle")

#: Amounts are up to this; two bytes say one, and the highest of what they can say stand for the smallest amounts, so
#: that there are some of each, and equal ones.
_MOST, _ORDINARY = 3000, 60_000


def numbers(draw: st.DrawFn, count: int, width: int) -> IntArray:
    """So many rows of numbers from 0 to 65,535.

    Parameters
    ----------
    draw
        Hypothesis's.
    count, width
        Rows, and numbers of each.
    """
    drawn = draw(st.binary(min_size=2 * count * width, max_size=2 * count * width))
    return np.frombuffer(drawn, ">u2").astype(np.int32).reshape(count, width)


def _amounts(numbers: IntArray) -> IntArray:
    """Up to `_MOST`."""
    return np.where(numbers < _ORDINARY, numbers % (_MOST + 1), numbers % 8)


@st.composite
def loads(draw: st.DrawFn, topology: Topology, flows: bool = True, limited: bool = True) -> TopologyLoad:
    """A measured load of `topology`: any pairs, and flows if asked for, with limits if wanted.

    Parameters
    ----------
    draw
        Hypothesis's; not given by who calls.
    topology
        Whose executors and components.
    flows
        Whether there may be flows.
    limited
        Whether flows may have limits.
    """
    executors, components = topology.num_executors, len(topology.components)
    pairs = numbers(draw, draw(st.integers(0, 2 * executors)), 3)
    pair_tps: FloatArray = _amounts(pairs[:, 2]) / 10
    flowing = numbers(draw, draw(st.integers(0, executors)) if flows else 0, 4)
    flow_tps: FloatArray = _amounts(flowing[:, 3]) / 10
    used = _amounts(numbers(draw, executors, 2))
    part = draw(_PART)  # sums of thirds depend on the order in which they are added up
    cpu_hz = used[:, 0] / part * 1e6
    limit = None
    if len(flowing) and limited and draw(st.booleans()):
        limits = numbers(draw, components, 2)
        limit = np.where(limits[:, 0] % 2 == 0, np.inf, _amounts(limits[:, 1]) / 10)
    in_bytes = draw(st.booleans())
    return TopologyLoad(
        cpu_hz=cpu_hz,
        memory_mb=used[:, 1] % 401 / part,
        pair_source=pairs[:, 0] % executors,
        pair_target=pairs[:, 1] % executors,
        pair_tps=pair_tps,
        flow_source=flowing[:, 0] % executors,
        flow_component=flowing[:, 1] % components,
        flow_grouping=tuple(_FLOWING[kind] for kind in flowing[:, 2] % len(_FLOWING)),
        flow_tps=flow_tps,
        flow_limit_tps=limit if limit is not None and np.isfinite(limit).any() else None,
        pair_bytes_per_s=pair_tps * 80 if in_bytes else None,
        flow_bytes_per_s=flow_tps * 80 if in_bytes else None,
        forecast_cpu_hz=cpu_hz * 2 if draw(st.booleans()) else None,
    )
