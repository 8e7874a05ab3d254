"""Which windows tell how a placement does: not those in which young JVMs load classes and compile."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from stormwright.history.judged.window import Sample

#: Seconds of a worker's life that never count: it connects to its peers and works off what has piled up meanwhile.
CONNECTING_S = 10.0

#: Seconds that do not count where it is not told what compilers take.
UNTOLD_S = 20.0

#: Of the CPU of warm workers, the most that compilers take; after so many seconds workers are warm in any case.
COMPILING, LONGEST_S = 0.1, 120.0

#: Workers of an age differ in it by no more than this, in seconds.
LIKE_AGE_S = 10.0


def is_warm(sample: Sample) -> bool:
    """Whether all workers had run long enough for what they did to count."""
    if sample.compiling is None:
        return sample.age_s >= UNTOLD_S
    return sample.age_s >= LONGEST_S or (sample.age_s >= CONNECTING_S and sample.compiling <= COMPILING)


def warm(samples: Iterable[Sample]) -> list[Sample]:
    """Those that are."""
    return [sample for sample in samples if is_warm(sample)]


def of_like_age(young: Sequence[Sample], after: Sequence[Sample]) -> tuple[list[Sample], list[Sample]]:
    """What two generations of workers did at the same age.

    Parameters
    ----------
    young
        From when the old workers were young; of other ages as well.
    after
        Of the new workers.

    Returns
    -------
    then, now
        Windows of both, of equally many seconds; empty where none are of one age.
    """
    then = [sample for sample in young if sample.age_s >= CONNECTING_S]
    now = [sample for sample in after if sample.age_s >= CONNECTING_S]
    if not then or not now:
        return [], []
    first, last = (most(each, key=lambda s: s.age_s).age_s for most, each in ((min, now), (max, now)))
    then = [sample for sample in then if first - LIKE_AGE_S / 2 <= sample.age_s <= last + LIKE_AGE_S / 2]
    if abs(_mean_age(then, first) - _mean_age(now, first)) > LIKE_AGE_S:
        return [], []
    return then, now


def _mean_age(samples: Sequence[Sample], otherwise: float) -> float:
    return sum(sample.age_s for sample in samples) / len(samples) if samples else otherwise
