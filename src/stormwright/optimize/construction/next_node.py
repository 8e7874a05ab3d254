"""Which node construction goes on to: one with room for the largest part of what is still to be placed.

A topology on one node costs least, so a node that takes all that is left comes first, and of these the one that it
fills best: larger ones stay free for larger topologies. Else the node that takes the largest part, in a rack whose
nodes can take all together, if there is one; the rack of the worker before is tried first. How large a part a node
takes is the least over ports, CPU, memory and further resources of what it has left over what is asked for.
"""

from __future__ import annotations

import math

from stormwright.jit.compiled import inner
from stormwright.jit.random_numbers import draw
from stormwright.model.arrays import IndexArray
from stormwright.optimize.kernel.records import NOWHERE, Layout, Rules
from stormwright.optimize.kernel.rules import left_on, put_in, take_from

# Limits of workers --------------------------------------------------------------------------------
# Who may grow a worker, of those that limits beside CPU, memory, ports and places leave.


@inner
def may_join(rules: Rules, topology: int, executor: int, worker: int, node: int) -> bool:
    """Whether further limits allow that an executor of no worker joins one.

    Parameters
    ----------
    rules
        As before afterwards.
    topology, executor, worker, node
        Which; the worker is on the node.
    """
    rise = put_in(rules, topology, executor, worker, node)
    take_from(rules, topology, executor, worker, node)
    return bool(rise <= 0)


# Next node ----------------------------------------------------------------------------------------


@inner
def next_node(
    layout: Layout, node: int, cpu_hz: float, memory_mb: float, workers: int, part: float, blink: float
) -> int:
    """The node of a topology's next worker, or -1: `node`, if it has room for so large a part of what is left.

    Parameters
    ----------
    layout
        Its `rack_room` is scratch, and random numbers are drawn where `blink` is above 0; nothing else is written.
    node
        That of the worker before, or -1.
    cpu_hz, memory_mb, workers
        What is left to be placed.
    part
        Part of it that the node must have room for, as the worker cannot be given less, from 0 to 1.
    blink
        Probability with which a node is overlooked.
    """
    if node != NOWHERE and _opens(layout, node, cpu_hz * part, memory_mb * part):
        return node
    rack = NOWHERE if node == NOWHERE else layout.nodes[node].rack
    return int(_choose_node(layout, cpu_hz, memory_mb, workers, part, rack, blink))


@inner
def _opens(layout: Layout, node: int, cpu_hz: float, memory_mb: float) -> bool:
    """Whether a node has a port for one more worker with so much in it."""
    return bool(
        layout.nodes[node].used < layout.nodes[node].ports
        and cpu_hz <= layout.nodes[node].cpu_hz_left
        and memory_mb <= layout.nodes[node].memory_mb_left
    )


@inner
def _choose_node(
    layout: Layout, cpu_hz: float, memory_mb: float, workers: int, least: float, rack: int, blink: float
) -> int:
    """The node for so much: the fullest that takes all; else that with room for the largest part, in a rack with room.

    Parameters
    ----------
    least
        Part of all that the node must have room for.
    rack
        The rack to stay in, if one of its nodes will do.
    """
    if rack != NOWHERE:
        first, last = layout.racks[rack].first, layout.racks[rack].last
        node = _choose_among(layout, layout.rack_nodes[first:last], cpu_hz, memory_mb, workers, least, blink)
        if node != NOWHERE:
            return node
    return _choose_among(layout, layout.rack_nodes, cpu_hz, memory_mb, workers, least, blink)


@inner
def _choose_among(
    layout: Layout, nodes: IndexArray, cpu_hz: float, memory_mb: float, workers: int, least: float, blink: float
) -> int:
    """That one of `nodes`."""
    for number in range(len(layout.racks)):
        layout.rack_room[number] = 0.0
    whole, whole_left = NOWHERE, math.inf
    for node in nodes:
        part = _part(layout, node, cpu_hz, memory_mb, workers)
        if part < least or (blink > 0 and draw(layout) < blink):
            continue
        layout.rack_room[layout.nodes[node].rack] += part
        left = layout.nodes[node].cpu_hz_left - cpu_hz
        if part >= 1 and left < whole_left:
            whole, whole_left = node, left
    if whole != NOWHERE:
        return whole
    best, best_part, best_roomy = NOWHERE, 0.0, False
    for node in nodes:
        part = _part(layout, node, cpu_hz, memory_mb, workers)
        if part < least or (blink > 0 and draw(layout) < blink):
            continue
        roomy = layout.rack_room[layout.nodes[node].rack] >= 1
        if (roomy and not best_roomy) or (roomy == best_roomy and part > best_part):
            best, best_part, best_roomy = node, part, roomy
    return best


@inner
def _part(layout: Layout, node: int, cpu_hz: float, memory_mb: float, workers: int) -> float:
    """What part of so much a node has room for; 0 without a port, above 1 if more than all."""
    ports = layout.nodes[node].ports - layout.nodes[node].used
    if ports <= 0:
        return 0.0
    part = ports / workers
    if cpu_hz > 0:
        part = min(part, layout.nodes[node].cpu_hz_left / cpu_hz)
    if memory_mb > 0:
        part = min(part, layout.nodes[node].memory_mb_left / memory_mb)
    for resource in range(len(layout.rules.asked)):
        if layout.rules.asked[resource] > 0:
            part = min(part, left_on(layout.rules, node, resource) / layout.rules.asked[resource])
    return float(part)
