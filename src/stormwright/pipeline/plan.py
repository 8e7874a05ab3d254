"""The pipeline as one picture, the same for a stream and for files.

::

    lines ─▶ judged ─┬─▶ accepted ─▶ panes
                     └─▶ audited

A stream has to come out at one end: there both are packed into one table per batch, which the driver collects.
"""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame

from stormwright.pipeline.clean import accepted, audited, judged
from stormwright.pipeline.derive import panes
from stormwright.pipeline.settings import StreamSettings
from stormwright.pipeline.windows import PANES


class Ends(NamedTuple):
    """Where lines come out: facts per pane, and one row of audit per line."""

    panes: DataFrame
    audit: DataFrame


def pipeline(lines: DataFrame, settings: StreamSettings, taken: Column | None = None) -> Ends:
    """Lines as read → facts per pane, and audit of all lines. With `taken` only such records become facts."""
    lines = judged(lines, settings.late_s)
    records = lines if taken is None else lines.where(taken)
    return Ends(panes(accepted(records, settings.watermark_s), settings), audited(lines))


def packed(ends: Ends) -> DataFrame:
    """Rows that are either a fact of a pane or, without `pane_ms`, the audit of one line."""
    return ends.panes.unionByName(ends.audit, allowMissingColumns=True)


def unpacked(rows: pa.Table) -> tuple[pa.Table, pa.Table]:
    """The collected rows of `packed` as a table of facts per pane and a table of audits."""
    is_fact = pc.is_valid(rows["pane_ms"])
    facts = rows.filter(is_fact).select(PANES.names).cast(PANES)
    return facts, rows.filter(pc.invert(is_fact)).drop_columns(PANES.names)
