"""Changes of a placement that can be taken back: executors to other workers, and workers to other nodes."""

from __future__ import annotations

from stormwright.jit.compiled import inner
from stormwright.jit.draw import draw, draw_below
from stormwright.optimize.kernel.records import NOWHERE
from stormwright.optimize.kernel.rules import bring, put_in, take_from
from stormwright.optimize.throughput.records import BROKEN_MB, PORT_MB, Sustained


@inner
def put(of: Sustained, executor: int, to: int) -> None:
    """Put an executor into another worker of its topology, which has a node."""
    _note(of, executor, of.executors[executor].worker)
    _put(of, executor, to)


@inner
def carry(of: Sustained, worker: int, node: int) -> None:
    """Move a worker with all that is in it to a node."""
    _note(of, -1 - worker, of.workers[worker].node)
    _carry(of, worker, node)


@inner
def take_back(of: Sustained) -> None:
    """Undo what was put and carried since `take_note`, the last first."""
    for number in range(of.state[0].logged - 1, -1, -1):
        what, before = of.changes[number].what, of.changes[number].before
        if what >= 0:
            _put(of, what, before)
        else:
            _carry(of, -1 - what, before)
    of.state[0].logged = 0


@inner
def take_note(of: Sustained) -> None:
    """What is changed from now on can be taken back."""
    of.state[0].logged = 0


@inner
def _note(of: Sustained, what: int, before: int) -> None:
    number = of.state[0].logged
    of.changes[number].what, of.changes[number].before = what, before
    of.state[0].logged = number + 1


@inner
def _put(of: Sustained, executor: int, to: int) -> None:
    own, memory_mb = of.executors[executor].worker, of.executors[executor].memory_mb
    of.executors[executor].worker = to
    of.workers[own].size -= 1
    of.workers[to].size += 1
    _load(of, of.workers[own].node, -memory_mb, -1 if of.workers[own].size == 0 else 0)
    _load(of, of.workers[to].node, memory_mb, 1 if of.workers[to].size == 1 else 0)
    topology = of.executors[executor].topology
    if of.rules.topologies[topology].limited:
        broken = take_from(of.rules, topology, executor, own, of.workers[own].node)
        broken += put_in(of.rules, topology, executor, to, of.workers[to].node)
        of.state[0].short += BROKEN_MB * broken


@inner
def _carry(of: Sustained, worker: int, node: int) -> None:
    own, topology = of.workers[worker].node, of.topologies[of.workers[worker].topology]
    of.workers[worker].node = node
    if of.workers[worker].size == 0:
        return
    memory_mb = 0.0
    for executor in range(topology.first, topology.last):
        if of.executors[executor].worker == worker:
            memory_mb += of.executors[executor].memory_mb
    _load(of, own, -memory_mb, -1)
    _load(of, node, memory_mb, 1)
    if of.rules.topologies[of.workers[worker].topology].limited:
        broken = bring(of.rules, of.workers[worker].topology, worker, own, -1)
        broken += bring(of.rules, of.workers[worker].topology, worker, node, 1)
        of.state[0].short += BROKEN_MB * broken


@inner
def _load(of: Sustained, node: int, memory_mb: float, workers: int) -> None:
    of.state[0].short -= _shortage(of, node)
    of.nodes[node].memory_left -= memory_mb
    of.nodes[node].used += workers
    of.state[0].short += _shortage(of, node)


@inner
def _shortage(of: Sustained, node: int) -> float:
    """What a node lacks of memory (MB) and ports."""
    on = of.nodes[node]
    return float(max(-on.memory_left, 0.0) + PORT_MB * max(on.used - on.ports, 0))


@inner
def is_allowed(of: Sustained) -> bool:
    """Whether workers whose executors were changed hold as many of them as they may."""
    for number in range(of.state[0].logged):
        what, before = of.changes[number].what, of.changes[number].before
        if what >= 0 and not (_may_hold(of, before) and _may_hold(of, of.executors[what].worker)):
            return False
    return True


@inner
def _may_hold(of: Sustained, worker: int) -> bool:
    size, it = of.workers[worker].size, of.topologies[of.workers[worker].topology]
    return bool(size <= it.most and (size > 0 or it.may_be_empty))


@inner
def draw_worker(of: Sustained, topology: int) -> int:
    """Any worker of a topology that has executors, or an empty one, which is opened on any node."""
    it = of.topologies[topology]
    worker = it.first_worker + draw_below(of, it.last_worker - it.first_worker)
    if of.workers[worker].size == 0:
        carry(of, worker, draw_node(of))
    return int(worker)


@inner
def draw_node(of: Sustained) -> int:
    """A node: any one, or as likely one on which something may move."""
    if len(of.free) > 0 and draw(of) < 0.5:
        return int(of.workers[of.executors[of.free[draw_below(of, len(of.free))]].worker].node)
    return draw_below(of, len(of.nodes))


@inner
def gather(of: Sustained, topology: int, worker: int) -> None:
    """Put all executors of a topology into one worker."""
    it = of.topologies[topology]
    for executor in range(it.first, it.last):
        if of.executors[executor].worker != worker:
            put(of, executor, worker)


@inner
def join(of: Sustained, worker: int, to: int) -> None:
    """Put all executors of a worker into another one."""
    it = of.topologies[of.workers[worker].topology]
    for executor in range(it.first, it.last):
        if of.executors[executor].worker == worker:
            put(of, executor, to)


@inner
def exchange(of: Sustained, worker: int) -> int:
    """Let a worker change places with one of another node; the topology of that, or none.

    The other one is that of a random executor, so a large one as likely as it is large.
    """
    other = of.executors[of.free[draw_below(of, len(of.free))]].worker
    node, to = of.workers[worker].node, of.workers[other].node
    if node == to:
        return NOWHERE
    carry(of, worker, to)
    carry(of, other, node)
    return int(of.workers[other].topology)
