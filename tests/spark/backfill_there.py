"""A program for tests: runs the pipeline over landed files wherever Spark is, and prints the ledger.

``backfill_there.py MASTER LANDING INTO KEY=VALUE…``
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory

from stormwright.pipeline.spark.session import batch_session
from stormwright.pipeline.spark.target import SparkTarget
from stormwright.pipeline.streaming.backfill import backfill


def main() -> None:
    master, landing, into, *conf = sys.argv[1:]
    with TemporaryDirectory() as directory:
        spark = batch_session(Path(directory), SparkTarget.parsed(master, conf))
        try:
            ledger = backfill(spark, [landing, f"{landing}-that-is-not-there"], into)
        finally:
            spark.stop()
    print(json.dumps(asdict(ledger)))


if __name__ == "__main__":
    main()
