"""Cells of an experiment: one start of a block under one variant, and its durations."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property

import orjson

from stormwright_lab.evaluations.definitions import Block, BlockKind, Paper, Variant

#: Additional seconds of a cell: submitting, start and end of workers.
_AROUND_S: dict[BlockKind, float] = {"steady": 34.0, "kills": 90.0, "moves": 75.0}

#: Seconds that a new cluster takes.
BOOT_S = 30.0


@dataclass(frozen=True)
class CellTimes:
    """Durations of measurements, in seconds.

    Parameters
    ----------
    warm_s
        Time after all workers report, and at most once more while compilers take much of their CPU.
    probe_s
        Time at the highest rate, if the block requires a fraction of it.
    sample_s, samples
        Length and number of the stretches in which each figure is measured; starts differ more than they do.
    kill_s
        Time between kills, and after the last: lost tuple trees block a spout for half a minute to a minute, and again
        where it goes on before the dead node's workers run elsewhere.
    kills
        Number of nodes killed.
    """

    warm_s: float = 10.0
    probe_s: float = 8.0
    sample_s: float = 3.0
    samples: int = 3
    kill_s: float = 180.0
    kills: int = 1

    @property
    def before_kills_s(self) -> float:
        """Duration of the measurement before the first kill."""
        return 0.15 * self.kill_s

    def used_by(self, kind: BlockKind) -> dict[str, float]:
        """Return the durations and numbers on which figures of a kind of block depend, by name."""
        others = () if kind == "kills" else ("kill_s", "kills")
        return {name: value for name, value in asdict(self).items() if name not in others}

    def of(self, block: Block) -> float:
        """Return the approximate duration of a cell of a block."""
        own = {
            "steady": self.sample_s * self.samples,
            "kills": self.kill_s * self.kills + self.before_kills_s,
            "moves": 2 * self.sample_s * self.samples,
        }[block.kind]
        return _AROUND_S[block.kind] + self.warm_s + own + (BOOT_S if block.kind == "kills" else 0.0)


#: A look that shows that everything works, and no figure.
QUICK = CellTimes(warm_s=3.0, probe_s=3.0, sample_s=1.5, samples=3, kill_s=45.0, kills=1)


@dataclass(frozen=True)
class Cell:
    """One start.

    Parameters
    ----------
    paper, block
        Name of the paper, and the block.
    variant
        Name of the variant in the block.
    repeat
        Number of the repeat from 0; also the seed.
    times
        Durations of the measurements.
    """

    paper: str
    block: Block
    variant: str
    repeat: int
    times: CellTimes

    @property
    def name(self) -> str:
        """Name for people and for topologies."""
        return f"{self.paper}, {self.block.name}, {self.variant}" + (f", repeat {self.repeat}" if self.repeat else "")

    @property
    def placed_by(self) -> Variant:
        """Scheduler of the cell."""
        return self.block.variants[self.variant]

    @property
    def is_first(self) -> bool:
        """Whether it runs without a load and provides one to the others."""
        return self.variant == next(iter(self.block.variants))

    @property
    def seconds(self) -> float:
        """Approximate duration."""
        probed = self.is_first and not self.repeat and self.block.share is not None
        return self.times.of(self.block) + (self.times.probe_s if probed else 0.0)

    @cached_property
    def key(self) -> str:
        """Key of the cell: another block, variant or time has another key."""
        own = {name: value for name, value in asdict(self.block).items() if name not in ("variants", "repeats")}
        parts = [
            self.paper,
            own,
            self.variant,
            asdict(self.placed_by),
            self.repeat,
            self.times.used_by(self.block.kind),
        ]
        return hashlib.sha256(orjson.dumps(parts, option=orjson.OPT_SORT_KEYS)).hexdigest()[:24]

    def first(self) -> Cell:
        """The cell that provides the load."""
        return Cell(self.paper, self.block, next(iter(self.block.variants)), self.repeat, self.times)


def cells_of(paper: Paper, times: CellTimes) -> list[Cell]:
    """Return all cells by block, providers of a load first; variants take turns, repeats are far apart."""
    most = max((block.repeats for block in paper.blocks), default=0)
    return [
        Cell(paper.name, block, variant, repeat, times)
        for repeat in range(most)
        for block in paper.blocks
        if repeat < block.repeats
        for variant in block.variants
    ]


def quick_cells(paper: Paper) -> Iterator[Cell]:
    """Yield the first block of each kind under its first two variants, once."""
    done_kinds: set[BlockKind] = set()
    for block in paper.blocks:
        if block.kind not in done_kinds:
            done_kinds.add(block.kind)
            yield from (Cell(paper.name, block, variant, 0, QUICK) for variant in list(block.variants)[:2])


def minutes(cells: Sequence[Cell]) -> float:
    """Return the approximate duration of cells, including their cluster."""
    return (sum(cell.seconds for cell in cells) + (BOOT_S if cells else 0.0)) / 60
