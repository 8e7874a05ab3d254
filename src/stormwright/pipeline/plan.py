"""The pipeline as one picture, the same for a stream and for files.

::

    lines ─▶ judged ─┬─▶ accepted ─▶ panes ─┬─▶ one table per batch, collected by the driver
                     └─▶ audited ───────────┘
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from stormwright.pipeline.clean import accepted, audited, judged
from stormwright.pipeline.derive import panes
from stormwright.pipeline.settings import StreamSettings
from stormwright.pipeline.windows import PANES


def pipeline(lines: DataFrame, settings: StreamSettings) -> DataFrame:
    """Lines as read → rows that are either a fact of a pane or, without `pane_ms`, the audit of one line."""
    lines = judged(lines)
    facts = panes(accepted(lines, settings.late_s), settings)
    return facts.unionByName(audited(lines), allowMissingColumns=True)


def unpacked(rows: pa.Table) -> tuple[pa.Table, pa.Table]:
    """The collected rows of `pipeline` as a table of facts per pane and a table of audits."""
    is_fact = pc.is_valid(rows["pane_ms"])
    facts = rows.filter(is_fact).select(PANES.names).cast(PANES)
    return facts, rows.filter(pc.invert(is_fact)).drop_columns(PANES.names)
