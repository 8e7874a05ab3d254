"""When batches run."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from stormwright.perflog import Landing
from stormwright.pipeline.settings import StreamSettings
from stormwright.pipeline.streaming.batches import BatchLoop
from tests.pipeline.waiting import wait


def test_batches_follow_sooner_while_somebody_watches(tmp_path: Path) -> None:
    landing = Landing(tmp_path)
    taken: list[str] = []

    def take(files: Sequence[Path]) -> None:
        for path in files:
            taken.append(path.read_text().strip())
            path.unlink()

    settings = StreamSettings(trigger_s=600, prompt_trigger_s=0.1)
    loop = BatchLoop(tmp_path, take, lambda: None, lambda: None, settings)
    landing.write([b"1"])
    loop.start()
    try:
        wait(lambda: taken == ["1"], lambda: taken)
        landing.write([b"2"])
        time.sleep(0.5)
        assert taken == ["1"]
        loop.run_promptly()
        wait(lambda: taken == ["1", "2"], lambda: taken)
    finally:
        loop.stop()
