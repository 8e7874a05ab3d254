"""Records that are written together, beside each alone."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path

import numpy as np
import orjson

from stormwright.simulator.cluster.records import RecordWriter
from tests.simulator.cluster.storms import running, words


def test_batch_of_worker_records_equals_individually_written_records(tmp_path: Path) -> None:
    storm = running(words(), tmp_path).storm
    storm.clock.sleep(12.5)
    storm.count()
    slots, workers = storm.supervisors.slots.copy(), list(storm.supervisors.workers.values())
    slots[workers[1].executors[0]] = workers[0].slot  # one was started elsewhere meanwhile
    spans = [(1e12 + 10.5 * number, 1e12 + 1e3) for number in range(len(workers))]
    meters = deepcopy(storm._meters)  # noqa: SLF001  # what was counted and not told: nobody else may see it
    meters.link_bytes += np.arange(meters.link_bytes.size).reshape(meters.link_bytes.shape) + 0.5
    alone, lives = RecordWriter(storm.problem, deepcopy(meters)), deepcopy(workers)
    one_by_one = [alone.records([life], slots, [span])[0] for life, span in zip(lives, spans, strict=True)]
    together = RecordWriter(storm.problem, meters).records(workers, slots, spans)
    assert [*map(orjson.dumps, together)] == [*map(orjson.dumps, one_by_one)]
    assert sum(pair[3] for record in together for pair in record["pairs"]) > 0
    reported = [record["complete_latency"]["counts"] for record in together]
    assert sum(map(bool, reported)) == len(storm.problem.topologies), "the first worker with a spout tells of all trees"
    assert all(not counts or counts[-1] > 0 for counts in reported)
    for record in together:
        sources = [pair[:2] for pair in record["pairs"]]
        tasks = {task for each in record["executors"] for task in range(each["first_task"], each["last_task"] + 1)}
        assert sources == sorted(sources)
        assert {source for source, _ in sources} <= tasks
