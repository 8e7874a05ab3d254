"""Constraints that only some schedulers heed, for explanations of their placements."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from stormwright.model.arrays import BoolArray, FloatArray

if TYPE_CHECKING:
    from stormwright.model.cluster import Supervisor
    from stormwright.model.problem import Problem

#: Key of `supervisor.scheduler.meta`: the tags of a supervisor, separated by commas.
TAGS: Final = "tags"

#: What a component or a supervisor without a tag is called.
UNTAGGED: Final = "untagged"


class ForbiddenNodes(NamedTuple):
    """Nodes that a constraint forbids, shape (N,), its kind, and the missing tag or resource as text."""

    kind: str
    text: str
    nodes: BoolArray


class ExtraLimit:
    """Base of constraints that only some schedulers heed; this one forbids nothing."""

    def capacity(self, capacity: FloatArray) -> FloatArray:
        """Return the part of the capacity of nodes that may be used, by resource, shape (K, N)."""
        return capacity

    def forbids(
        self,
        problem: Problem,  # noqa: ARG002  # what forbids something looks at it
        topology: int,  # noqa: ARG002
        component: int,  # noqa: ARG002
    ) -> Iterator[ForbiddenNodes]:
        """Yield the nodes on which executors of a component may not run.

        Parameters
        ----------
        problem
            Problem with the topologies and nodes.
        topology, component
            Indices of the topology, and of the component in it.
        """
        return iter(())


@dataclass(frozen=True)
class CpuShare(ExtraLimit):
    """Executors use only a share of a node's CPU.

    Parameters
    ----------
    part
        The share, from 0 to 1.
    """

    part: float

    def capacity(self, capacity: FloatArray) -> FloatArray:
        """Return that share of the CPU, and all other resources."""
        left = capacity.copy()
        left[0] *= self.part
        return left


@dataclass(frozen=True)
class Tags(ExtraLimit):
    """A component runs only on nodes that have all its tags.

    Parameters
    ----------
    untagged_apart
        Whether components without a tag run only on nodes without one.
    """

    untagged_apart: bool = False

    def forbids(self, problem: Problem, topology: int, component: int) -> Iterator[ForbiddenNodes]:
        """Yield nodes without some of the tags, grouped by the missing ones."""
        tags = tags_of(problem.topologies[topology].components[component].tags)
        lacking: dict[str, list[int]] = {}
        for node, supervisor in enumerate(problem.supervisors):
            own = tags_of_node(supervisor)
            missing = sorted(tags - own)
            if not missing and not tags and own and self.untagged_apart:
                missing = [UNTAGGED]
            if missing:
                names = ", ".join(f'"{tag}"' for tag in missing)
                lacking.setdefault(f"{'tag' if len(missing) == 1 else 'tags'} {names} missing", []).append(node)
        for text, nodes in lacking.items():
            yield ForbiddenNodes("tag", text, np.isin(np.arange(len(problem.supervisors)), nodes))


def tags_of(texts: Collection[str]) -> frozenset[str]:
    """Return the tags in texts like ``"gpu, ssd"``."""
    return frozenset(tag.strip() for tag in ",".join(texts).split(",") if tag.strip())


def tags_of_node(node: Supervisor) -> frozenset[str]:
    """Return the tags of a supervisor."""
    return tags_of([(node.scheduler_meta or {}).get(TAGS, "")])
