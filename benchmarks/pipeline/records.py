"""Records for the benchmarks of the pipeline: as short as the schema allows, twelve facts each."""

from __future__ import annotations

from collections.abc import Iterator

#: Pairs in a record, counted latency buckets, and what a record unfolds into: also an executor, two seconds, a worker.
PAIRS = 6
BUCKETS = 2
FACTS = 1 + PAIRS + BUCKETS + 2 + 1

SECOND_MS = 1000


class Workers:
    """A number of workers that each write a record a second, one executor in each.

    Parameters
    ----------
    count
        Workers, ten to a topology.
    start_ms
        When the first interval of the first worker begins; those of the others do so within a second of it.
    topology
        Format of a topology's identifier, from its number.
    """

    def __init__(self, count: int, start_ms: int, topology: str = "t-{}") -> None:
        self.count = count
        self._start_ms = start_ms
        self._lines = [_line(worker, start_ms, topology) for worker in range(count)]

    def second(self, number: int, written_ms: int | None = None) -> Iterator[bytes]:
        """What all workers write of one second, in the order of their intervals."""
        for worker in range(self.count):
            yield self.record(worker, number, written_ms)

    def record(self, worker: int, number: int, written_ms: int | None = None) -> bytes:
        """What one worker writes of one second, now or at the end of its interval."""
        start_ms = self._start_ms + number * SECOND_MS + worker * SECOND_MS // self.count + 1
        written = start_ms + SECOND_MS if written_ms is None else written_ms
        tuples = 1000 + (worker * 7 + number * 13) % 1000
        return self._lines[worker] % (
            number, start_ms, written, 400_000_000 + tuples, 200_000_000 + tuples, tuples, 6 * tuples, tuples * 9000,
            *(tuples + pair for pair in range(PAIRS)), tuples,
        )  # fmt: skip


def _line(worker: int, start_ms: int, name: str) -> bytes:
    topology, place = divmod(worker, 10)
    task = 1 + place
    pairs = ",".join(f"[{task},{20 + pair},0,%d,{2000 + pair}]" for pair in range(PAIRS))
    return (
        f'{{"version":1,"worker":{{"topology":"{name.format(topology)}","supervisor":"s-{place}","host":"h-{place}",'
        f'"port":{6700 + topology % 100},"pid":{1000 + worker},"start_ms":{start_ms - 60_000}}},"seq":%d,"start_ms":%d,'
        '"length_ns":1000000000,"written_ms":%d,"process_cpu_ns":%d,"heap_bytes":123456789,'
        f'"executors":[{{"component":"split","first_task":{task},"last_task":{task},"cpu_ns":%d,"received":%d,'
        '"emitted":%d,"trees":0,"acked":0,"failed":0,"execute_ns":%d}],'
        f'"streams":[["split","default","count","fields"]],"pairs":[{pairs}],'
        '"complete_latency":{"counts":[0,0,3,%d]}}'
    ).encode()
