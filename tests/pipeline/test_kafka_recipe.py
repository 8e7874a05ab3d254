"""What docs/spark.md says of Kafka, on messages as Kafka's source gives them: the same as landed files."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from stormwright.pipeline.streaming.batch import backfill
from tests.pipeline.generator import deliver, dice, land, make_world, records

pytestmark = pytest.mark.spark

DOCS = Path(__file__).parents[2] / "docs" / "spark.md"
START_MS = 1_690_000_000_000


@pytest.mark.slow
def test_messages_are_read_as_files_are(spark: SparkSession, tmp_path: Path) -> None:
    rng = dice(5)
    delivery = deliver(records(make_world(5), START_MS, 12, rng), rng, spoil=0.2)
    landed_ms = START_MS + 20_000
    land(tmp_path / "landing", delivery.lines, landed_ms)
    ledger = backfill(spark, [tmp_path / "landing"], tmp_path / "into")
    moment = datetime.fromtimestamp(landed_ms / 1000, UTC)
    rows = [("perflog", 0, offset, moment, bytearray(line)) for offset, line in enumerate(delivery.lines)]
    messages = spark.createDataFrame(
        rows, "topic string, partition int, offset long, timestamp timestamp, value binary"
    )
    recipe = DOCS.read_text().split("```python\n")[1].split("```")[0]
    imports, _, rest = recipe.partition("messages = (")
    names = {"messages": messages}
    exec(imports + rest.partition("\n)\n")[2], names)  # noqa: S102 - our own documentation
    ends = names["ends"]
    assert names["facts"].agg(F.sum("records")).collect()[0][0] == ledger.used
    assert ends.audit.where("reason IS NOT NULL").count() == ledger.quarantined > 5
    assert ends.audit.count() == ledger.read
