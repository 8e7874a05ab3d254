"""Holds on all moves: much of the cluster is missing or unmeasured."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, get_args

from stormwright.model.humanize import counted

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
