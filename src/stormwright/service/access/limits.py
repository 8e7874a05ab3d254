"""How often somebody may do what costs much, or fail."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

#: Names or addresses that are remembered: of more, who was heard of longest ago starts anew.
MOST_REMEMBERED = 10_000


@dataclass
class _Left:
    times: float
    at_s: float


class Rate:
    """So many times at once, and then one every so many seconds, for each name; on the thread of the event loop.

    Parameters
    ----------
    times
        At once.
    every_s
        Seconds after which there is one more.
    now_s
        Tells the time.
    """

    def __init__(self, times: int, every_s: float, now_s: Callable[[], float] = time.monotonic) -> None:
        self._times, self._every_s, self._now_s = times, every_s, now_s
        self._left: OrderedDict[str, _Left] = OrderedDict()

    def wait_s(self, name: str) -> float:
        """Take one time of a name's; 0 where there was one, else the seconds until there is, and none is taken."""
        now_s = self._now_s()
        left = self._left.setdefault(name, _Left(self._times, now_s))
        self._left.move_to_end(name)
        if len(self._left) > MOST_REMEMBERED:
            self._left.popitem(last=False)
        left.times = min(left.times + (now_s - left.at_s) / self._every_s, self._times)
        left.at_s = now_s
        if left.times < 1:
            return (1 - left.times) * self._every_s
        left.times -= 1
        return 0.0
