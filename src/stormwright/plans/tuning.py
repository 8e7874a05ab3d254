"""Tuning of a topology: its aim, and the trials made for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field

from stormwright.plans.figures import Range, Shape

#: ``running`` (a trial is planned, applied or evaluated, or waits for its turn), ``done`` (no further trial is worth
#: it), ``stopped`` (by a person), ``failed`` (a trial could neither stay nor be taken back, or the topology is gone).
TuningState = Literal["running", "done", "stopped", "failed"]

_Positive = Annotated[float, Field(gt=0)]


@dataclass(frozen=True)
class TuningAim:
    """Aim of a topology's configuration.

    Parameters
    ----------
    quantity
        ``throughput``: as many trees a second as possible; ``cores``: as little CPU as possible at the rate that comes.
    rate_tps
        Minimum trees/s; None for those measured before each change.
    latency_ms, p99_ms
        Maximum mean and 99th percentile of the complete latency; None for no limit.
    """

    quantity: Literal["throughput", "cores"] = "throughput"
    rate_tps: _Positive | None = None
    latency_ms: _Positive | None = None
    p99_ms: _Positive | None = None

    def __str__(self) -> str:
        wanted = {"throughput": "highest rate", "cores": "least CPU"}[self.quantity]
        limits = [
            f"{text} {value:,.4g} {unit}"
            for text, value, unit in (
                ("at least", self.rate_tps, "trees/s"),
                ("mean latency up to", self.latency_ms, "ms"),
                ("99th percentile up to", self.p99_ms, "ms"),
            )
            if value is not None
        ]
        return ", ".join([wanted, *limits])


#: The aim of a trial that only has to be better.
FASTER = TuningAim()


class TuningTrial(Shape):
    """One trial of a tuning: a plan that stays only if its topology is measurably better.

    Parameters
    ----------
    plan
        Id of the plan that carries it out.
    executors, conf, placed
        Changes against the configuration that the topology had then, and whether it was placed again.
    features
        The change as `stormwright.controller.tuning.effects` has it.
    modelled, predicted
        Predicted multiple of the aim's quantity by the model alone, and with the effects learned from earlier trials.
    measured, latency
        Measured multiples of the aim's quantity and of the mean latency; None until it is evaluated, and if unknown.
    pause_s
        Seconds for which the topology was paused, both ways.
    state
        ``planned`` (by a dry run, which ends with it), ``running``, ``better``, ``taken back``, or ``failed``.
    why
        Why it was taken back or failed.
    """

    plan: str
    executors: dict[str, int] = Field(default_factory=dict)
    conf: dict[str, Any] = Field(default_factory=dict)
    placed: bool = False
    features: dict[str, float] = Field(default_factory=dict)
    modelled: float = 1.0
    predicted: Range
    measured: Range | None = None
    latency: float | None = None
    pause_s: float = 0.0
    state: Literal["planned", "running", "better", "taken back", "failed"] = "running"
    why: str = ""

    @property
    def change(self) -> str:
        """The change as text."""
        executors = [f"{name} {count}" for name, count in self.executors.items()]
        asleep = [key for key, value in self.conf.items() if ".wait.progressive." in key and value == 0]
        others = {key: value for key, value in self.conf.items() if key not in asleep}
        conf = [f"{key.removeprefix('topology.')} {value}" for key, value in others.items()]
        conf += ["idle threads sleep at once"] if asleep else []
        return ", ".join([*executors, *conf, *(["placed again"] if self.placed else [])])


class Tuning(Shape):
    """A tuning: trials, one after the other, of configurations of one topology.

    Parameters
    ----------
    id, topology, name
        Its identifier, and the id and name of the topology.
    by, reason, begun_ms
        Author, reason, and begin in ms since 1970.
    aim, any_latency
        Its aim, and whether the latency may rise where it has no limit; else the latency before the first trial is the
        limit.
    max_trials, max_pause_s
        Budget: number of trials, and seconds of all their pauses together.
    state, why
        Its state, and the reason for it.
    trials
        Its trials, in the order in which they were made.
    spouts
        Components (ids) that are spouts.
    plan
        Plan (id) that is being made, applied or evaluated for it; empty between two.
    dry_run
        Whether it ends with the first plan, which is not applied.
    """

    id: str
    topology: str
    name: str
    by: str
    reason: str
    begun_ms: int
    aim: TuningAim
    any_latency: bool = False
    max_trials: int = 6
    max_pause_s: float = 600.0
    state: TuningState = "running"
    why: str = ""
    trials: tuple[TuningTrial, ...] = ()
    spouts: tuple[str, ...] = ()
    plan: str = ""
    dry_run: bool = False

    @property
    def improvements(self) -> list[TuningTrial]:
        """The trials that were better, and stay."""
        return [trial for trial in self.trials if trial.state == "better"]

    @property
    def gain(self) -> float:
        """Measured multiple of the aim's quantity since the begin."""
        gain = 1.0
        for trial in self.improvements:
            gain *= (trial.measured and trial.measured.value) or 1.0
        return gain

    @property
    def latency(self) -> float:
        """Measured multiple of the mean latency since the begin."""
        latency = 1.0
        for trial in self.improvements:
            latency *= trial.latency or 1.0
        return latency

    @property
    def pause_s(self) -> float:
        """Seconds of all pauses."""
        return sum(trial.pause_s for trial in self.trials)
