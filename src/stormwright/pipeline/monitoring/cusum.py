"""Detection of persistent changes: two-sided CUSUM of logarithms, vectorised over many series.

Page, "Continuous inspection schemes", Biometrika 41, 1954, https://doi.org/10.1093/biomet/41.1-2.100. Steps of mean -κ
and deviation 1 add up to b after about (exp(2κb') - 1 - 2κb') / 2κ² of them, b' = b + 1.166 (Siegmund, "Sequential
Analysis", 1985, https://doi.org/10.1007/978-1-4757-1862-1), so the threshold follows from how rare a false alarm
shall be.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stormwright.model.arrays import BoolArray, FloatArray, IntArray

#: Siegmund's correction of the threshold for discrete steps.
_OVERSHOOT = 1.166

#: Deviations by which the mean of a reference may be off, and the least by which noise is to fall behind its allowance.
_REFERENCE_OFF = 3.0
_MIN_DRIFT = 0.75

#: Weight of the assumed noise in windows, and decay of older windows.
_ASSUMED_WINDOWS = 10.0
_DECAY = 0.99

#: Steps beyond this, in deviations, count as changes rather than noise.
_OUTLIER = 3.0


@dataclass(frozen=True)
class CusumSettings:
    """Settings of the change detection.

    Parameters
    ----------
    least_change
        Relative change that should be found; what stays below about half of it never is.
    false_alarm_windows
        Windows from one false alarm of a whole family of series to the next, on average, where noise is independent
        from window to window.
    reference_windows
        The first windows are the reference.
    noise
        Relative deviation from window to window that is assumed until it is known.
    """

    least_change: float = 0.25
    false_alarm_windows: float = 10_000.0
    reference_windows: int = 6
    noise: float = 0.05


class Cusum:
    """Change detection of S series, window by window.

    Parameters
    ----------
    family
        Series per family. A false alarm of any of them is one of the family.
    floor
        Smaller values count as this, shape (S,) or one number.
    """

    def __init__(self, settings: CusumSettings, family: int, floor: FloatArray | float) -> None:
        self._settings = settings
        self._alarm_windows = settings.false_alarm_windows * family * 2  # either side may raise it
        self._floor = floor
        self._windows = 0
        self._reference = self._last = self._allowance = self._up = self._down = np.empty(0)
        self._up_since = self._down_since = np.empty(0, np.int32)
        self._squares = self._weight = np.empty(0)

    def add(self, values: FloatArray) -> BoolArray:
        """Process the next window, shape (S,), and return which series have changed."""
        settings, logs = self._settings, np.log(np.maximum(values, self._floor))
        if not self._windows:
            self._reference, self._up, self._down = logs, np.zeros_like(logs), np.zeros_like(logs)
            self._up_since = self._down_since = np.zeros(len(logs), np.int32)
            self._squares, self._weight = np.zeros_like(logs), np.zeros_like(logs)
        else:
            self._note_noise(logs - self._last)
        self._last = logs
        self._windows += 1
        if self._windows <= settings.reference_windows:
            self._reference = self._reference + (logs - self._reference) / self._windows
            return np.zeros(len(logs), bool)
        noise = self.noise()
        off = _REFERENCE_OFF / np.sqrt(settings.reference_windows) * noise
        self._allowance = np.maximum(np.log1p(settings.least_change) / 2, off + _MIN_DRIFT * noise)
        threshold = np.maximum(
            noise * cusum_threshold((self._allowance - off) / noise, self._alarm_windows), self._allowance
        )
        change = logs - self._reference
        self._up, self._up_since = self._summed(self._up, self._up_since, change)
        self._down, self._down_since = self._summed(self._down, self._down_since, -change)
        changed: BoolArray = np.maximum(self._up, self._down) > np.maximum(threshold, self._allowance)
        return changed

    def noise(self) -> FloatArray:
        """Return the relative deviation of every series from window to window."""
        assumed = _ASSUMED_WINDOWS * self._settings.noise**2
        deviation: FloatArray = np.sqrt((assumed + self._squares) / (_ASSUMED_WINDOWS + self._weight))
        return deviation

    def change(self, series: int) -> tuple[float, int]:
        """Return the relative change of a series from its reference, and its age in windows."""
        rising = self._up[series] >= self._down[series]
        total, since = (self._up, self._up_since) if rising else (self._down, self._down_since)
        windows = self._windows - int(since[series])
        log = total[series] / windows + self._allowance[series]
        return float(np.expm1(log if rising else -log)), windows

    def _note_noise(self, step: FloatArray) -> None:
        # Successive differences show noise alone, even if the mean has moved.
        limit = _OUTLIER * np.sqrt(2) * self.noise()
        self._squares = _DECAY * self._squares + np.minimum(np.abs(step), limit) ** 2 / 2
        self._weight = _DECAY * self._weight + 1

    def _summed(self, total: FloatArray, since: IntArray, change: FloatArray) -> tuple[FloatArray, IntArray]:
        begins = total <= 0
        after = np.maximum(total + change - self._allowance, 0.0)
        return after, np.where(begins, self._windows - 1, since).astype(np.int32)


def cusum_threshold(drift: FloatArray, alarm_windows: float) -> FloatArray:
    """Return the sum, in deviations, that noise with `drift` reaches once in `alarm_windows`."""
    exponent = np.zeros_like(drift)
    for _ in range(5):  # a fixed point that is all but reached after the second round
        exponent = np.log1p(2 * drift**2 * alarm_windows + exponent)
    threshold: FloatArray = exponent / (2 * drift) - _OVERSHOOT
    return threshold
