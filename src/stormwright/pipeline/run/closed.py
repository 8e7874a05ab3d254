"""What a stream asks of whoever keeps the panes that it has closed."""

from __future__ import annotations

from typing import Protocol

import pyarrow as pa


class ClosedPaneKeeper(Protocol):
    """Keeps the panes that each batch closes, once, whatever happens in between."""

    error: str | None
    """Why panes that are complete could not be kept; None while they can."""

    def begin(self, batch: int) -> None:
        """Go on after `batch`, the last one in the stream's state."""
        ...

    def close(self, batch: int, panes: pa.Table) -> None:
        """Take note of what a batch closes, before the state that is without it is saved."""
        ...

    def saved(self) -> None:
        """The state is saved: what was closed before counts."""
        ...
