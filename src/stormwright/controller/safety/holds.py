"""Holds on all moves (much of the cluster missing or unmeasured), and the adaptive move budget."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Final, Literal, get_args

from stormwright.controller.planning.order import MoveBudget
from stormwright.model.humanize import counted

# Move budget --------------------------------------------------------------------------------------
# Moves per decision, adapted to the success of the last moves: slow increase, quick decrease.
#
# As congestion control does it: additive increase, multiplicative decrease (Chiu and Jain, "Analysis of the increase
# and decrease algorithms for congestion avoidance in computer networks", 1989,
# https://doi.org/10.1016/0169-7552(89)90019-6).

#: A pause is long if it exceeds this multiple of the usual one and this many seconds.
LONG_TIMES, LONG_S = 2.0, 20.0

#: Number of moves from which the usual pause is known.
_KNOWN = 5


@dataclass
class AdaptiveBudget:
    """Number of topologies that one decision may move, between 1 and the limit.

    Parameters
    ----------
    topologies
        Current number, from 1; rounded down when used, as failures halve it.
    why
        Why it is below the limit; empty initially.
    """

    topologies: float = 1.0
    why: str = ""

    def of(self, most: MoveBudget) -> MoveBudget:
        """Return the current budget under the limit `most`."""
        return replace(most, max_topologies=min(max(int(self.topologies), 1), most.max_topologies))

    def record_success(self, most: MoveBudget) -> None:
        """Record a move with a usual pause."""
        self.topologies = max(min(self.topologies + 1.0, float(most.max_topologies)), 1.0)
        self.why = ""

    def record_failure(self, why: str) -> None:
        """Record a move that was rolled back, failed, or paused for long."""
        self.topologies, self.why = max(self.topologies / 2, 1.0), why


def long_pause(pause_s: float, before_s: Sequence[float]) -> bool:
    """Return whether a pause of spouts was longer than usual.

    Parameters
    ----------
    pause_s
        Pause of a move in seconds.
    before_s
        Pauses of earlier moves in seconds.
    """
    return len(before_s) >= _KNOWN and pause_s >= max(LONG_S, LONG_TIMES * median(before_s))


# Holds --------------------------------------------------------------------------------------------

#: ``missing``: too many recent nodes are absent; ``rebalancing``: another client moves topologies; ``silent``: no
#: recent request from Nimbus; ``unmeasured``: too little was measured; ``stale``: measurements are too old.
HoldCode = Literal["missing", "rebalancing", "silent", "unmeasured", "stale"]
HOLD_CODES: Final[tuple[HoldCode, ...]] = get_args(HoldCode)

#: More than this part of the nodes may not be missing, as in Cruise Control
#: (``fixable.failed.broker.percentage.threshold``).
MAX_MISSING = 0.4

#: Seconds for which an absent node counts as missing; after that it is gone for good.
LATELY_S = 1800.0

#: Maximum number of nodes listed by name.
_SHOWN = 3


@dataclass(frozen=True)
class Hold:
    """A reason why nothing moves now: a code and a sentence."""

    code: HoldCode
    why: str


@dataclass
class NodePresence:
    """Nodes present lately; O(nodes), nodes that are gone for good are dropped.

    Parameters
    ----------
    most_missing
        Maximum part of missing nodes, from 0 to 1.
    last_present_s
        Last time of presence by node, in seconds of one clock.
    """

    most_missing: float = MAX_MISSING
    last_present_s: dict[str, float] = field(default_factory=dict)

    def see(self, nodes: Collection[str], now_s: float) -> None:
        """Record nodes as present."""
        self.last_present_s.update(dict.fromkeys(nodes, now_s))
        if len(self.last_present_s) > len(nodes):
            self.last_present_s = {node: at_s for node, at_s in self.last_present_s.items() if now_s - at_s <= LATELY_S}

    def restore(self, last_present_s: Mapping[str, float]) -> None:
        """Restore the state from before a restart."""
        self.last_present_s = {**last_present_s, **self.last_present_s}

    def hold(
        self, nodes: Collection[str], excused: Collection[str] = (), name: Callable[[str], str] = str
    ) -> Hold | None:
        """Return a hold if too many nodes are missing.

        Parameters
        ----------
        nodes
            Supervisor ids of the nodes that are present now.
        excused
            Nodes taken out of service, which may be absent.
        name
            Returns the display name of a node.
        """
        missing = sorted(self.last_present_s.keys() - set(nodes) - set(excused))
        total = len(missing) + len(nodes)
        if not missing or len(missing) <= self.most_missing * total:
            return None
        named = ", ".join(sorted(map(name, missing))[:_SHOWN]) + (", …" if len(missing) > _SHOWN else "")
        some = counted(len(missing), "node")
        return Hold(
            "missing",
            f"{some} of {total} that were there in the last {LATELY_S / 60:g} min are missing ({named}): nothing moves "
            f"while more than {100 * self.most_missing:g} % are",
        )
