"""The page of a soak: curves of memory, files, threads and state directory, events, and the verdict."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from stormwright import __version__
from stormwright.workbench.report import blank_figure, svg_of, write_report
from stormwright_lab.chaos.soak_record import PROCESSES, SoakRecord
from stormwright_lab.chaos.soak_verdict import SoakVerdict

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: The page, in the output directory.
PAGE = "soak.html"

_COLOURS = ("#0072b2", "#d55e00")
_LABELS = {"memory_mb": "memory, MB", "files": "open files", "threads": "threads"}


def write_page(path: Path, record: SoakRecord, verdict: SoakVerdict) -> None:
    """Write the page.

    Parameters
    ----------
    path
        HTML file to write; an existing one is replaced.
    record, verdict
        Samples, events and ledgers of the soak, and the verdict about them.
    """
    write_report(
        path,
        "soak.html.j2",
        package="stormwright_lab",
        title="Soak",
        lead=f"stormwright {__version__}; {verdict.minutes:.0f} minutes in {record.sessions} sessions.",
        verdict=verdict.text,
        good=not verdict.faults,
        growths=verdict.growths,
        labels=_LABELS,
        curves=_curves(record),
        ledgers=list(record.ledgers.values()),
        events=record.events,
    )


def _curves(record: SoakRecord) -> str:
    figure = blank_figure(10, 12)
    rows = figure.subplots(5, 1, sharex=True)
    for axes, (measure, label) in zip(rows, _LABELS.items(), strict=False):
        for process, colour in zip(PROCESSES, _COLOURS, strict=True):
            lives: dict[str, list[tuple[float, float]]] = {}
            for sample in record.samples:
                if (each := sample.processes.get(process)) is not None:
                    at_min = sample.elapsed_s / 60
                    lives.setdefault(f"{sample.session}-{each.life}", []).append((at_min, getattr(each, measure)))
            for number, points in enumerate(lives.values()):
                axes.plot(*zip(*points, strict=True), color=colour, label=None if number else process)
        _finish(axes, label)
    minutes = [sample.elapsed_s / 60 for sample in record.samples]
    for part in sorted({name for sample in record.samples for name in sample.state_mb}):
        sizes = [sample.state_mb.get(part, 0.0) for sample in record.samples]
        if max(sizes) >= 1:
            rows[3].plot(minutes, sizes, label=part)
    _finish(rows[3], "state directory, MB")
    rows[4].plot(minutes, [sample.rate_tps for sample in record.samples], color="#666", drawstyle="steps-pre")
    _finish(rows[4], "numbers/s")
    for event in record.events:
        if event.kind in ("fault", "plan"):
            for axes in rows:
                axes.axvline(event.elapsed_s / 60, color="#a02c00" if event.kind == "fault" else "#bbb", linewidth=0.6)
    rows[4].set_xlabel("minutes; red: a fault, grey: a move")
    return svg_of(figure)


def _finish(axes: Axes, label: str) -> None:
    axes.set(ylabel=label)
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    if axes.get_legend_handles_labels()[1]:
        axes.legend(frameon=False, ncols=4, fontsize="small")
