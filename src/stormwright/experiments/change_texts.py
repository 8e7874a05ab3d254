"""Changes as people write them: on the command line and in a form of the dashboard."""

from __future__ import annotations

import re

from stormwright.errors import Fault
from stormwright.link_speed import link_bits_per_s

_RATE = re.compile(r"(?P<of>(?P<topology>.+)=)?(?P<times>[x×*])?(?P<factor>\d+(?:\.\d+)?)")
_PARALLELISM = re.compile(r"(?:(?P<topology>.+)/)?(?P<component>[^/=]+)=(?P<count>\d{1,7})")


def rate_told(text: str, faults: list[Fault]) -> tuple[str, float]:
    """A topology, empty for all, and the factor of its rate; what is wrong is added to `faults`."""
    match = _RATE.fullmatch(text)
    if match is None or not 0 < float(match["factor"]) <= 1e6:
        faults.append(
            Fault(f"should be a factor above 0 as in ×1.5, of one topology as in NAME=×1.5; got {text}", "--rate")
        )
        return "", 1.0
    if match["times"] is None:
        # Elsewhere (`advise --rate 9000`) a number is trees/s, and nobody means 9000 times as much.
        factor = f"{match['of'] or ''}×{match['factor']}"
        faults.append(Fault(f"is a number without ×: say {factor} for a factor of the rate; got {text}", "--rate"))
    return match["topology"] or "", float(match["factor"])


def executors_told(text: str, faults: list[Fault]) -> tuple[tuple[str, str], int]:
    """A topology, empty for any, and its component, and how many executors; what is wrong is added to `faults`."""
    match = _PARALLELISM.fullmatch(text)
    if match is None or int(match["count"]) == 0:
        faults.append(
            Fault(f"should be COMPONENT=N or TOPOLOGY/COMPONENT=N, N at least 1; got {text}", "--parallelism")
        )
        return ("", ""), 1
    return (match["topology"] or "", match["component"]), int(match["count"])


def link_told(text: str, faults: list[Fault]) -> float:
    """Bits per second; what is wrong is added to `faults`."""
    speed = link_bits_per_s(text)
    if not speed:
        faults.append(Fault(f"should be a speed above 0 as in 1gbit, 100mbit or 500kbit; got {text}", "--link"))
    return speed
