"""Supervisors and their worker slots."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

#: Speed assumed of one core when a supervisor does not tell its `cpu_hz`.
DEFAULT_CORE_HZ = 3e9


class WorkerSlot(NamedTuple):
    """A port of a supervisor, which can hold one worker."""

    supervisor: str
    port: int

    def __str__(self) -> str:
        return f"{self.supervisor}:{self.port}"


@dataclass(frozen=True, slots=True)
class Supervisor:
    """A node of the cluster.

    Parameters
    ----------
    ports
        Its worker slots.
    resources
        Capacity under Storm's normalised names: ``cpu.pcore.percent`` (100 a core), ``memory.mb``, generic ones.
    cpu_hz
        B_k, the CPU that executors may use, in Hz.
    link_bps
        Speed of its network link in bits per second, where known.
    """

    id: str
    host: str
    ports: tuple[int, ...]
    cpu_hz: float
    rack: str = "default-rack"
    scheduler_meta: Mapping[str, str] | None = None
    resources: Mapping[str, float] = field(default_factory=dict)
    link_bps: float | None = None

    @property
    def memory_mb(self) -> float:
        """Memory for workers in MB; infinite where the supervisor does not tell."""
        return self.resources.get("memory.mb", float("inf"))
