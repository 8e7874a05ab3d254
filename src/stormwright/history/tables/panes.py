"""Panes that the stream has closed, on their way into the history."""

from __future__ import annotations

from collections import OrderedDict

import pyarrow as pa
import pyarrow.compute as pc

from stormwright.history.tables.definitions import FACTS
from stormwright.history.tables.staging import Staging

#: Batches whose panes are kept in memory while they cannot be written.
MAX_HELD = 1000


class ClosedPanes:
    """Stages what each batch closes, once, whatever happens in between.

    1. Before the stream's state is saved, the panes are written to a hidden file, whose name follows from the batch: a
       batch that is repeated replaces it.
    2. Once the state is saved the batch is never repeated, and the file may be taken.
    3. A crash in between leaves it hidden. The state tells at the next start whether the batch counts.
    4. A disk without room is no reason to stop: what cannot be written is kept in memory and tried again.
    """

    def __init__(self, staging: Staging) -> None:
        self._staging = staging
        self._held: OrderedDict[str, pa.Table] = OrderedDict()
        self.lost = 0
        self.error: str | None = None

    def begin(self, batch: int) -> None:
        """Go on after `batch`, the last one in the stream's state."""
        for name in self._staging.hidden(FACTS):  # (3)
            if _batch_of(name) <= batch:
                self._staging.publish(FACTS, name)
            else:
                self._staging.discard(FACTS, name)

    def close(self, batch: int, panes: pa.Table) -> None:
        """Take note of what a batch closes, before the state that is without it is saved."""
        if not panes.num_rows:
            return
        # After a new beginning batches are counted anew; the time goes on.
        self._held[f"{pc.min(panes['pane_ms']).as_py():013d}-{batch:010d}"] = panes
        try:
            for name in list(self._held):
                self._staging.write(FACTS, name, self._held[name], hidden=True)
                del self._held[name]
            self.error = None
        except (OSError, pa.ArrowException) as error:  # (4)
            self.error = f"closed panes cannot be staged: {error}"
        while len(self._held) > MAX_HELD:
            self._held.popitem(last=False)
            self.lost += 1

    def saved(self) -> None:
        """The state is saved."""
        try:
            for name in self._staging.hidden(FACTS):
                self._staging.publish(FACTS, name)
        except OSError as error:
            self.error = f"closed panes cannot be staged: {error}"


def _batch_of(name: str) -> int:
    return int(name.rpartition("-")[2])
