"""Spark's options for how many records come: few, where a batch costs what its planning costs, or many."""

from __future__ import annotations

import os
from typing import Literal, TypeAlias

#: Some hundred records a second, beside what is watched; thousands, with all cores; or as many as have piled up.
RecordRate: TypeAlias = Literal["low", "high", "bulk"]

_BOTH = {
    # Batches are planned once, as what they hold is known by then.
    "spark.sql.adaptive.enabled": "false",
    # What is read once and used twice stays for a moment only.
    "spark.sql.inMemoryColumnarStorage.compressed": "false",
}

_HIGH = {
    "spark.master": "local[*]",
    "spark.driver.extraJavaOptions": "-XX:+UseParallelGC",
    "spark.sql.shuffle.partitions": str(max(2, os.cpu_count() or 1)),
    "spark.sql.codegen.wholeStage": "true",
    "spark.sql.codegen.factoryMode": "FALLBACK",
    "spark.sql.subexpressionElimination.enabled": "true",
}


def rate_options(rate: RecordRate) -> dict[str, str]:
    """Options of the session, which take the place of others."""
    return _BOTH | ({} if rate == "low" else _HIGH)
