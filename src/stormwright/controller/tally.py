"""Live counts from the performance log on which a safe move waits.

The pipeline's windows are for deciding; a drain needs to know within one probe interval whether any tuple tree is
pending. So this counts each record once, on arrival, in memory.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from stormwright.base.clock import WALL, Clock
from stormwright.model import WorkerSlot
from stormwright.model.requests import CHECKPOINT_SPOUT
from stormwright.perflog.records import LogRecord, WorkerId, worker_id

#: Newest records kept for measurements: an hour of ten workers that report twice a second.
MAX_RECORDS = 72_000

#: The stream on which a spout announces a new tuple tree to an acker.
ACK_INIT_STREAM = "__ack_init"

#: Sequence numbers remembered beyond a gap.
MAX_AHEAD = 1000

#: Seconds of silence after which a worker is reduced to the sums, and seconds between checks for that.
FORGOTTEN_S = 3600.0
SWEEP_S = 60.0

#: Seconds for which a worker's report of the standby workers of its node is valid; and age up to which reports of
#: several workers are compared: probes count standbys every ten seconds, so a report may include one that is in use.
STANDBYS_S, _COUNTED_S = 60.0, 12.0

#: Seconds within which a node that loads standbys at all has loaded its first one.
_FIRST_STANDBY_S = 180.0

#: Number of missed records, and minimum seconds, after which a worker counts as ended.
SILENT_INTERVALS = 6
MIN_SILENT_S = 2.5

#: Restarts of a worker within `CRASHES_S` seconds from which it crashes at each start, and seconds without an acked
#: tree from which its topology no longer works.
CRASHES, CRASHES_S, UNACKED_S = 2, 180.0, 20.0

#: Number of trees that earlier workers would have completed meanwhile from which a topology counts as stalled.
MIN_MISSED = 20

#: Quiet records of a worker whose arrival is remembered.
MAX_QUIET = 64


@dataclass(frozen=True)
class Checkpoints:
    """Steps of the checkpoints of a topology since it started.

    Parameters
    ----------
    acked, failed
        Completed and failed steps. A checkpoint has two (prepare, commit); after a failure there are two more before
        (rollback or commit, initialize).
    rests
        Whether the newest record of the checkpoint spout has none: between two checkpoints; commit follows prepare at
        once.
    """

    acked: int = 0
    failed: int = 0
    rests: bool = True

    def completed_since(self, before: Checkpoints) -> bool:
        """Return whether a checkpoint has begun and was committed since; a commit may have been left from before."""
        needed = 2 + 2 * (self.failed - before.failed)
        acked = self.acked - before.acked
        return acked > needed or (acked == needed and self.rests)


@dataclass(frozen=True)
class NodeStandbys:
    """Idle standby workers of a node: their number, and the memory (bytes) and CPU (thousandths of a core) of all."""

    standbys: int
    memory_bytes: int
    millicores: int


@dataclass
class WorkerTally:
    """Counts of one worker since it started.

    `quiet` holds the arrival times of the latest consecutive records in which no tree was begun and no queue held a
    tuple (`Clock.monotonic`); `first_heard` and `heard` are when the first and the newest came, `interval_s` the time
    that this covered, `ended` that it was marked as the last; `connections` is the number of connections to it when it
    last reported that; `configuration` is a digest of the one that it runs with, empty if its probe does not report it;
    `completed` is when the newest record with an acked tree came.
    """

    begun: int = 0
    acked: int = 0
    failed: int = 0
    pending: int = 0
    quiet: deque[float] = field(default_factory=lambda: deque(maxlen=MAX_QUIET))
    heard: float = 0.0
    first_heard: float = 0.0
    interval_s: float = 0.0
    ended: bool = False
    tasks: tuple[tuple[int, int], ...] = ()
    connections: int = 0
    configuration: str = ""
    checkpoints: Checkpoints = Checkpoints()
    completed: float = float("-inf")
    newest_seq: int = -1
    next_seq: int = 0
    received_ahead: set[int] = field(default_factory=set)

    def is_new(self, seq: int) -> bool:
        """Record a sequence number and return whether it is new.

        A gap that is not filled while `MAX_AHEAD` further records come is a loss.
        """
        if seq < self.next_seq or seq in self.received_ahead:
            return False
        self.received_ahead.add(seq)
        if len(self.received_ahead) > MAX_AHEAD:
            self.next_seq = min(self.received_ahead)
        while self.next_seq in self.received_ahead:
            self.received_ahead.remove(self.next_seq)
            self.next_seq += 1
        return True

    def add(self, other: WorkerTally) -> None:
        """Add the tuple trees of another worker."""
        self.begun += other.begun
        self.acked += other.acked
        self.failed += other.failed


class Tally:
    """Counts per worker and, optionally, the newest records; thread-safe.

    A worker that has not been heard of for `FORGOTTEN_S` is remembered only in the sums of its topology. `began_s` is
    since when it counts (`Clock.monotonic`).

    Parameters
    ----------
    keep_records
        Whether the newest records are stored.
    clock
        Clock for arrival times and waits.
    """

    def __init__(self, *, keep_records: bool = False, clock: Clock = WALL) -> None:
        self.clock = clock
        self._keep_records = keep_records
        self._workers: dict[WorkerId, WorkerTally] = {}
        self._forgotten: dict[str, WorkerTally] = {}
        self._standbys: dict[str, dict[WorkerId, tuple[float, NodeStandbys]]] = {}
        #: The most idle ones that a host has had.
        self._most_standbys: Counter[str] = Counter()
        self._first_look: dict[str, float] = {}
        self._next_sweep = 0.0
        self.began_s = clock.monotonic()
        self._records: deque[LogRecord] = deque(maxlen=MAX_RECORDS)
        self._changed = threading.Condition()

    def add(self, records: Iterable[LogRecord]) -> list[LogRecord]:
        """Count valid records once and return those that were counted."""
        records = list(records)  # may be parsed only now, which is none of the lock's business
        new: list[LogRecord] = []
        with self._changed:
            for record in records:
                identity = worker_id(record)
                now_s = self.clock.monotonic()
                worker = self._workers.get(identity)
                if worker is None:
                    worker = self._workers[identity] = WorkerTally(first_heard=now_s)
                if not worker.is_new(record["seq"]):
                    continue
                new.append(record)
                if self._keep_records:
                    self._records.append(record)
                _count(worker, record, now_s)
                if (standbys := _standbys(record)) is not None:
                    host = record["worker"]["host"]
                    self._first_look.setdefault(host, now_s)
                    self._standbys.setdefault(host, {})[identity] = now_s, standbys
                    self._most_standbys[host] = max(self._most_standbys[host], standbys.standbys)
            self._sweep()
            self._changed.notify_all()
        return new

    def standbys(self) -> dict[str, NodeStandbys]:
        """Return the standby workers by host, of nodes whose workers have reported them lately."""
        now_s = self.clock.monotonic()
        with self._changed:
            return {host: found for host, there in self._standbys.items() if (found := _fewest(there.values(), now_s))}

    def missing_standbys(self, starts: Mapping[str, int]) -> dict[str, int]:
        """Return the standby workers that are not idle yet, by host.

        Parameters
        ----------
        starts
            Number of workers about to start by host. At most as many standbys as a host ever had are missing, or one if
            it never had any but may still be loading the first.
        """
        there, now_s = self.standbys(), self.clock.monotonic()

        def most(host: str) -> int:
            return self._most_standbys[host] or int(now_s < self._first_look[host] + _FIRST_STANDBY_S)

        wanted = {host: min(count, most(host)) for host, count in starts.items() if host in there}
        return {host: count - there[host].standbys for host, count in wanted.items() if count > there[host].standbys}

    def records(self) -> list[LogRecord]:
        """Return the newest records, in order of arrival."""
        with self._changed:
            return list(self._records)

    def wait(self, timeout_s: float) -> None:
        """Return when records arrive, or after `timeout_s` seconds."""
        with self._changed:
            self.clock.wait(self._changed, timeout_s)

    def unaccounted(self, topology: str) -> int:
        """Return the trees begun but neither acked nor failed, over all workers and records received."""
        total = self.totals(topology)
        return total.begun - total.acked - total.failed

    def pending(self, topology: str, live: Iterable[tuple[str, int]]) -> int:
        """Return the trees pending in live workers (supervisor, port), as last reported."""
        with self._changed:
            newest = self._newest(topology)
            return sum(newest[slot].pending for slot in live if slot in newest)

    def checkpoints(self, topology: str) -> Checkpoints:
        """Return the steps of checkpoints of a topology, over its known workers; it rests if the newest does."""
        with self._changed:
            known = [self._workers[life].checkpoints for life in self._lives(topology)]
        known = [each for each in known if each.acked or each.failed]
        acked, failed = (sum(getattr(each, name) for each in known) for name in ("acked", "failed"))
        return Checkpoints(acked, failed, known[-1].rests if known else True)

    def totals(self, topology: str) -> WorkerTally:
        """Return the trees begun, acked and failed since the topology started."""
        total = WorkerTally()
        with self._changed:
            total.add(self._forgotten.get(topology, WorkerTally()))
            for identity, worker in self._workers.items():
                if identity.topology == topology:
                    total.add(worker)
        return total

    def quiet(self, topology: str, live: Iterable[tuple[str, int]], since: float) -> bool:
        """Return whether every live worker (supervisor, port) reported a quiet interval begun after `since`.

        The first record heard after `since` covers an interval that began before it, so a second quiet one is
        required, which came most of an interval later: those of a backlog come together, and cover earlier times.
        """
        with self._changed:
            newest = self._newest(topology)
            return all((worker := newest.get(slot)) is not None and _quiet(worker, since) for slot in live)

    def stuck(self, topology: str, live: Iterable[tuple[str, int]], since: float) -> bool:
        """Return whether a live worker has pending trees although it is idle, as defined by `quiet`."""
        with self._changed:
            newest = self._newest(topology)
            workers = [newest[slot] for slot in live if slot in newest]
            return any(worker.pending > 0 and _quiet(worker, since) for worker in workers)

    def has_ended(self, life: WorkerId, silent_s: float) -> bool:
        """Return whether a worker has reported its end, or has missed its records for at least `silent_s` seconds."""
        with self._changed:
            worker = self._workers.get(life)
            return worker is None or self._gone(worker, silent_s)

    def lives(self, topology: str, slots: Iterable[tuple[str, int]]) -> list[WorkerId]:
        """Return the newest known worker in each of the slots (supervisor, port)."""
        wanted = set(slots)
        with self._changed:
            newest = {(life.supervisor, life.port): life for life in self._lives(topology)}
        return [life for slot, life in newest.items() if slot in wanted]

    def reporting(self, topology: str) -> dict[WorkerSlot, frozenset[int]]:
        """Return the slots from which workers of a topology report, with their tasks except Storm's own (-1)."""
        with self._changed:
            lives = [life for life in self._lives(topology) if not self._gone(self._workers[life])]
            return {WorkerSlot(life.supervisor, life.port): _tasks(self._workers[life]) for life in lives}

    def reports(self, topology: str, supervisor: str, port: int, tasks: frozenset[int], since: float) -> bool:
        """Return whether a worker with certain tasks has reported from a slot.

        Parameters
        ----------
        topology
            Id of the topology.
        supervisor, port
            Supervisor id and port of the worker's slot.
        tasks
            Ids of the tasks that the newest worker there must hold; with none of them any worker will do.
        since
            When it has to have reported the last time at the earliest, as of `Clock.monotonic`.
        """
        with self._changed:
            worker = self._newest(topology).get((supervisor, port))
            return worker is not None and worker.heard > since and all(_has(worker, task) for task in tasks)

    def starts(self, topology: str, slots: Iterable[tuple[str, int]], since: float) -> Counter[tuple[str, int]]:
        """Return how many workers came up in each of some slots (supervisor, port) since a time (`Clock.monotonic`)."""
        wanted = set(slots)
        with self._changed:
            came = [life for life in self._lives(topology) if self._workers[life].first_heard > since]
        return Counter(slot for life in came if (slot := (life.supervisor, life.port)) in wanted)

    def configuration(self, topology: str, slot: tuple[str, int]) -> str:
        """Return the digest of the configuration that the newest worker in a slot (supervisor, port) runs with."""
        with self._changed:
            worker = self._newest(topology).get(slot)
            return worker.configuration if worker else ""

    def connections(self, topology: str, slot: tuple[str, int]) -> int:
        """Return the number of connections from other workers to the newest worker in a slot (supervisor, port)."""
        with self._changed:
            worker = self._newest(topology).get(slot)
            return worker.connections if worker else 0

    def unheard(
        self, topology: str, live: Iterable[tuple[str, int]], least_s: float = MIN_SILENT_S
    ) -> list[tuple[str, int]]:
        """Return live workers (supervisor, port) that do not report, or no longer report for `least_s` seconds."""
        with self._changed:
            newest = self._newest(topology)
            return [slot for slot in live if slot not in newest or self._silent(newest[slot], least_s)]

    def crashes(self, topology: str, live: Iterable[tuple[str, int]]) -> bool:
        """Return whether a live worker (supervisor, port) of a topology ends at each start, so that no tree completes.

        A worker that is only silent may work, and its records be lost. One that was replaced by a move ended once.
        """
        now, slots = self.clock.monotonic(), set(live)
        with self._changed:
            lives = [(life, self._workers[life]) for life in self._lives(topology)]
        if any(now - worker.completed < UNACKED_S for _, worker in lives):
            return False
        began = [(life.supervisor, life.port) for life, worker in lives if now - worker.first_heard < CRASHES_S]
        return any(began.count(slot) > CRASHES for slot in slots)

    def stalls(self, topology: str, live: Iterable[tuple[str, int]]) -> bool:
        """Return whether the live workers (supervisor, port) of a topology complete no tree, as earlier ones did.

        So it is after a move to nodes where a bolt waits for ever. Some trees are pending then.
        """
        now, slots = self.clock.monotonic(), set(live)
        with self._changed:
            newest = [worker for slot, worker in self._newest(topology).items() if slot in slots]
            earlier = [self._workers[life] for life in self._lives(topology)]
        earlier = [worker for worker in earlier if all(worker is not other for other in newest)]
        if not earlier or not any(worker.pending for worker in newest):
            return False
        silent_s = now - max(max(worker.completed, worker.first_heard) for worker in newest)
        covered_s = max(worker.heard for worker in earlier) - min(worker.first_heard for worker in earlier)
        missed = sum(worker.acked for worker in earlier) / max(covered_s, 1.0) * silent_s
        return silent_s >= UNACKED_S and missed >= MIN_MISSED

    def _sweep(self) -> None:
        now = self.clock.monotonic()
        if now < self._next_sweep:
            return
        self._next_sweep = now + SWEEP_S
        for identity in [life for life, worker in self._workers.items() if now - worker.heard > FORGOTTEN_S]:
            self._forgotten.setdefault(identity.topology, WorkerTally()).add(self._workers.pop(identity))
        for there in self._standbys.values():
            for identity in [life for life, (heard, _) in there.items() if now - heard > STANDBYS_S]:
                del there[identity]

    def _gone(self, worker: WorkerTally, least_s: float = MIN_SILENT_S) -> bool:
        return worker.ended or self._silent(worker, least_s)

    def _silent(self, worker: WorkerTally, least_s: float = MIN_SILENT_S) -> bool:
        return self.clock.monotonic() - worker.heard > max(SILENT_INTERVALS * worker.interval_s, least_s)

    def _newest(self, topology: str) -> dict[tuple[str, int], WorkerTally]:
        return {(life.supervisor, life.port): self._workers[life] for life in self._lives(topology)}

    def _lives(self, topology: str) -> list[WorkerId]:
        """Return the workers of a topology, oldest first."""
        lives = (life for life in self._workers if life.topology == topology)
        return sorted(lives, key=lambda life: life.start_ms)


def _standbys(record: LogRecord) -> NodeStandbys | None:
    node = record.get("node") or {}
    if node.get("standbys") is None:
        return None
    return NodeStandbys(node["standbys"], node.get("standby_bytes") or 0, node.get("standby_millicores") or 0)


def _fewest(heard: Iterable[tuple[float, NodeStandbys]], now_s: float) -> NodeStandbys | None:
    """Return the lowest of the recent reports of a node's workers; the newest if none is recent; None without any."""
    valid = [(at, standbys) for at, standbys in heard if at >= now_s - STANDBYS_S]
    since = min(now_s - _COUNTED_S, max((at for at, _ in valid), default=now_s))
    return min((standbys for at, standbys in valid if at >= since), key=lambda each: each.standbys, default=None)


def _quiet(worker: WorkerTally, since: float) -> bool:
    came = [heard for heard in worker.quiet if heard > since]
    return len(came) >= 2 and came[-1] - came[0] > 0.75 * worker.interval_s


def _has(worker: WorkerTally, task: int) -> bool:
    return any(first <= task <= last for first, last in worker.tasks)


def _tasks(worker: WorkerTally) -> frozenset[int]:
    return frozenset(task for first, last in worker.tasks for task in range(max(first, 0), last + 1))


def _count(worker: WorkerTally, record: LogRecord, now_s: float) -> None:
    # Only spouts begin trees; a bolt's acked and failed are of tuples, not of trees.
    spouts = [executor for executor in record["executors"] if executor["type"] == "spout"]
    ended = sum(spout["acked"] + spout["failed"] for spout in spouts)
    # Without ackers Storm acks a tuple as soon as it is emitted: nothing is ever pending.
    tracked = any(stream[1] == ACK_INIT_STREAM for stream in record["streams"])
    begun = sum(spout["trees"] for spout in spouts) if tracked else ended
    worker.begun += begun
    acked = sum(spout["acked"] for spout in spouts)
    worker.acked += acked
    worker.completed = now_s if acked else worker.completed
    worker.failed += sum(spout["failed"] for spout in spouts)
    steps = [spout for spout in spouts if spout["component"] == CHECKPOINT_SPOUT]
    if steps:
        acked, failed = (sum(spout[name] for spout in steps) for name in ("acked", "failed"))
        so_far = worker.checkpoints
        worker.checkpoints = Checkpoints(so_far.acked + acked, so_far.failed + failed, rests=acked + failed == 0)
    # A number far behind is not late: the previous number was invalid.
    if worker.newest_seq - MAX_AHEAD <= record["seq"] < worker.newest_seq:
        return  # it came late: what follows is known from a later one
    worker.newest_seq = record["seq"]
    reported = [spout["pending"] for spout in spouts if spout.get("pending") is not None]
    # A probe of before this field was there leaves it to the counts, which miss what began before they did.
    worker.pending = (sum(reported) if tracked else 0) if reported else worker.begun - worker.acked - worker.failed
    # A spout receives acks, which pending trees count, and only each 400 ms while it is paused; flush tuples of batches
    # pile up in its queue until then (`SpoutExecutor.call` of Storm 2.8.3).
    idle = begun == 0 and all((each["queue"] or 0.0) == 0.0 for each in record["executors"] if each["type"] != "spout")
    worker.heard = now_s
    if idle:
        worker.quiet.append(worker.heard)
    else:
        worker.quiet.clear()
    worker.ended = bool(record["worker"].get("last"))
    worker.interval_s = record["length_ns"] / 1e9
    worker.connections = record["worker"].get("connections") or worker.connections
    worker.configuration = record["worker"].get("configuration") or ""
    worker.tasks = tuple((executor["first_task"], executor["last_task"]) for executor in record["executors"])
