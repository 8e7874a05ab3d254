"""The pipeline as one picture, the same for a stream and for files.

::

    lines ─▶ judged ─┬─▶ accepted ─▶ windowed ─┬─▶ one table per batch, collected by the driver
                     └─▶ audited ──────────────┘
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from stormwright.pipeline.clean import accepted, audited, judged
from stormwright.pipeline.derive import windowed
from stormwright.pipeline.settings import StreamSettings
from stormwright.pipeline.windows import WINDOWED


def pipeline(lines: DataFrame, settings: StreamSettings) -> DataFrame:
    """Lines as read → rows that are either a windowed fact or, without `window_ms`, the audit of one line."""
    lines = judged(lines)
    facts = windowed(accepted(lines, settings.late_s), settings)
    return facts.unionByName(audited(lines), allowMissingColumns=True)


def unpacked(rows: pa.Table) -> tuple[pa.Table, pa.Table]:
    """The collected rows of `pipeline` as a table of windowed facts and a table of audits."""
    is_fact = pc.is_valid(rows["window_ms"])
    facts = rows.filter(is_fact).select(WINDOWED.names).cast(WINDOWED)
    return facts, rows.filter(pc.invert(is_fact)).drop_columns(WINDOWED.names)
