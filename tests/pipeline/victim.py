"""A process with a stream in it, to be killed: ``python -m tests.pipeline.victim LANDING STATE POINT [BROKER TOPIC]``.

At a forced point it kills itself, at once and with its JVM, the first time that it gets there after `AFTER` batches.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from stormwright.pipeline.parsing.quarantine import Quarantine
from stormwright.pipeline.settings import KafkaTopic, StreamSettings
from stormwright.pipeline.streaming import kafka_landing, sink
from stormwright.pipeline.streaming.stream import LoadStream
from tests.pipeline.kafka_broker import CONNECTOR

#: All panes stay open, so that in the end there is a place to look for every record.
SETTINGS = StreamSettings(window_s=600, trigger_s=0.1, max_files_per_batch=8)

#: Batches that a life has come to before it ends at a forced point.
AFTER = 2

#: Forced point → what is done there, and whether it ends before or after that.
POINTS: dict[str, tuple[Any, str, bool]] = {
    "before the quarantine is written": (Quarantine, "keep", True),
    "after the quarantine is written": (Quarantine, "keep", False),
    "before the state counts": (Path, "replace", True),
    "after the state is written": (sink, "save", False),
    "before a processed file is deleted": (Path, "unlink", True),
    "after a processed file is deleted": (Path, "unlink", False),
    "after the batch": (sink.ProfileSink, "take", False),
}

#: The same of a batch of messages from Kafka.
KAFKA_POINTS: dict[str, tuple[Any, str, bool]] = {
    "before messages are staged": (kafka_landing, "write_whole", True),
    "before the mark is written": (kafka_landing.MessageLanding, "_set_mark", True),
    "after the mark is written": (kafka_landing.MessageLanding, "_set_mark", False),
    "after messages have landed": (kafka_landing.MessageLanding, "land", False),
}


def set_trap(point: str, spring: Callable[[], None], replace: Callable[[Any, str, Any], None] = setattr) -> None:
    """Have `spring` called when a batch gets to a forced point."""
    owner, name, before = {**POINTS, **KAFKA_POINTS}[point]
    do = getattr(owner, name)

    def trapped(*args: Any, **kwargs: Any) -> Any:
        meant = _is_meant(name, args)
        if meant and before:
            spring()
        done = do(*args, **kwargs)
        if meant and not before:
            spring()
        return done

    replace(owner, name, trapped)


def _is_meant(name: str, args: tuple[Any, ...]) -> bool:
    """Whether it is about the file that the point is about."""
    if name == "replace":
        return bool(args[1].name == "state.json")
    return name != "unlink" or bool(args[0].parent.name == "landing")


def of_topic(broker: str, topic: str) -> StreamSettings:
    """The settings with a topic, of which a batch has few messages."""
    return replace(SETTINGS, kafka=KafkaTopic(broker, topic, {"maxOffsetsPerTrigger": "40"}, CONNECTOR))


def main() -> None:
    landing, state, point, *topic = sys.argv[1:]
    stream = LoadStream(Path(landing), Path(state), of_topic(*topic) if topic else SETTINGS)
    if point:
        reached = 0

        def spring() -> None:
            nonlocal reached
            reached += 1
            if reached > AFTER:
                os.killpg(0, signal.SIGKILL)

        set_trap(point, spring)
    with stream:
        print("started", flush=True)
        while True:
            time.sleep(1)


if __name__ == "__main__":
    main()
