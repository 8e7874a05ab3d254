"""Who is first, with many at the same time, compared with a look at all of them."""

from __future__ import annotations

import numpy as np
import pytest

from stormwright.simulator.kernel import clock
from stormwright.simulator.kernel.arrays import NEVER

#: As plain Python: from that nothing else is called.
set_time, first_of = (getattr(each, "py_func", each) for each in (clock.set_time, clock.first_of))


@pytest.mark.parametrize("count", [1, 2, 3, 8, 35])
def test_clock_orders_events_by_time_then_by_number(count):
    chance = np.random.default_rng(count)
    few = np.array([0.0, 5e-324, 1e-9, 1.0, np.nextafter(1.0, 2.0), 1e300, NEVER])
    times = chance.choice(few, count)
    of = clock.ActorTimes.of(times)
    for _ in range(300):
        who, time = int(chance.integers(count)), float(chance.choice(few))
        set_time(of, who, time)
        times[who] = time
        assert first_of(of) == times.argmin(), "the first of several that are least"
        assert list(of.when[:count]) == list(times)
