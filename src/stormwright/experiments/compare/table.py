"""A comparison as a table of texts: for a terminal, a prompt and a notebook alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from html import escape
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from stormwright.experiments.compare.run import Comparison, PlacementFigures

#: Heading → what stands under it; traffic in tuples/s. Those without a number anywhere are left out, except `cost`.
_COLUMNS: dict[str, Callable[[PlacementFigures], float | int | None]] = {
    "cost": lambda figures: figures.total,
    "in worker": lambda figures: figures.cost.same_executor + figures.cost.same_worker,
    "in node": lambda figures: figures.cost.inter_worker,
    "in rack": lambda figures: figures.cost.inter_node,
    "between racks": lambda figures: figures.cost.inter_rack,
    "to unplaced": lambda figures: figures.cost.unplaced,
    "unplaced": lambda figures: figures.unplaced,
    "nodes": lambda figures: figures.nodes,
    "workers": lambda figures: figures.workers,
    "CPU max/mean": lambda figures: figures.balance,
    "moved": lambda figures: figures.moved_executors,
    "restarted": lambda figures: figures.restarted_workers,
}


class ComparisonTable(NamedTuple):
    """Cells as people read them, the first of each row a name."""

    head: list[str]
    rows: list[list[str]]

    def as_text(self) -> str:
        """Columns under each other, numbers to the right."""
        widths = [max(map(len, column)) for column in zip(self.head, *self.rows, strict=True)]
        lines = []
        for name, *cells in [self.head, *self.rows]:
            padded = [cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True)]
            lines.append("  ".join([name.ljust(widths[0]), *padded]))
        return "\n".join(lines)

    def as_html(self) -> str:
        """The same for a notebook."""
        head = "".join(f"<th>{escape(text)}</th>" for text in self.head)
        rows = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in self.rows)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"


def comparison_table(comparison: Comparison) -> ComparisonTable:
    """What runs now, then every scheduler, best first."""
    found = [row.figures for row in comparison.rows if row.figures]
    found += [comparison.current] if comparison.current else []
    columns = {name: value for name, value in _COLUMNS.items() if name == "cost" or any(map(value, found))}
    rows = []
    if comparison.current:
        rows.append(["(what runs now)", *_cells(comparison.current, columns), ""])
    for row in comparison.rows:
        cells = _cells(row.figures, columns) if row.figures else [*("–" for _ in columns), "failed"]
        rows.append([row.label, *cells, f"{row.seconds:.3f}"])
    return ComparisonTable(["", *columns, "limits", "s"], rows)


def _cells(
    figures: PlacementFigures, columns: Mapping[str, Callable[[PlacementFigures], float | int | None]]
) -> list[str]:
    cost, *others = (_number(value(figures)) for value in columns.values())
    return [figures.mark + cost, *others, figures.limits_text]


def _number(value: float | int | None) -> str:
    if value is None:
        return "–"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.2f}" if value < 10 else f"{value:,.1f}"
