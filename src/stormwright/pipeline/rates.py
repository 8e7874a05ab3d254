"""Spark's options for how many records come: few, where a batch costs what its planning costs, or many."""

from __future__ import annotations

import os
from typing import Literal, TypeAlias

#: A few hundred records a second at most, beside what is watched; or as many as there are, with all cores.
Rate: TypeAlias = Literal["low", "high"]

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


def rate_options(rate: Rate) -> dict[str, str]:
    """Options of the session, which take the place of others."""
    return _BOTH | (_HIGH if rate == "high" else {})
