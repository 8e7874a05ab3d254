"""Costs of messages and workers besides the work of executors, and their errors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType
from typing import Any, NamedTuple

from stormwright.errors import Fault, InputError

#: Half-widths of the relative errors before any fit.
_WORK_ERROR, _MESSAGE_ERROR, _DELAY_ERROR = 0.1, 0.3, 0.5


@dataclass(frozen=True, slots=True)
class CostRange:
    """Range of a quantity, from `least` to `most`, over which costs were fitted."""

    least: float
    most: float

    def holds(self, value: float) -> bool:
        """Return whether `value` is inside, up to rounding."""
        return self.least * (1 - 1e-9) <= value <= self.most * (1 + 1e-9)


@dataclass(frozen=True, slots=True)
class FitRange:
    """Range in which costs were fitted; predictions outside of it carry a note.

    Parameters
    ----------
    node_utilisation
        CPU in use of the nodes, as a fraction of their capacity.
    rate_tps
        Topology id → observed trees/s.
    """

    node_utilisation: CostRange
    rate_tps: Mapping[str, CostRange] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Costs:
    """CPU, bytes and delays of a cluster that belong to no executor's own work.

    CPU is in µs of a core of the problem's `core_hz`; a faster core takes less. A message is a tuple that leaves its
    worker. The CPU to send and to receive one, the base CPU of a worker and the overhead of a message on the wire are
    as measured on one word count (Storm 2.8.3, a core reported as 2.4 GHz; tuples of 16 bytes, 33 on the wire).
    Serialisation, all costs by the byte and the delays are assumed, until they are fitted to a cluster.

    Parameters
    ----------
    serialise_us, serialise_us_per_kb
        CPU of a message in the thread of the sending executor; the second for each 1,000 bytes.
    send_us, send_us_per_kb
        CPU of a message in the sending threads of the sender's worker.
    receive_us, receive_us_per_kb
        CPU of a message in the receiving threads of the receiver's worker.
    worker_cores
        Base CPU of a worker (heartbeats, metrics, garbage collection), in cores.
    spin_share
        CPU that an executor's thread takes while it polls for tuples on a full node, as a fraction of that time; 0
        until it was fitted. A full node spends `polling_cores` on it. It is subtracted from the measured CPU of
        executors whose polls were not counted.
    poll_us
        CPU of a poll, with the kernel's for putting the thread to sleep and waking it up; 0 until it was fitted. Polls
        that were counted are subtracted from the measured CPU of executors.
    polling_threads
        Mean number of threads of a full node that poll at any moment. Measured: 1.2 + 0.067 for each executor on 217
        full nodes of 0.4 cores with 1 to 28 executors.
    overhead_bytes
        Bytes that a message adds to its tuple on the wire.
    local_hop_us, remote_hop_us
        Delay of a tuple on its way into a queue of its own worker, and of another one, without contention.
    quota_period_ms
        Period of the CPU quota of every node (``cpu.max`` of a control group, a container's CPU limit), after which a
        node that has used it up runs again; 0 for whole machines, which do not stop. Linux has 100.
    quota_piece_ms
        Slices in which the quota is handed out to cores: the kernel's ``sched_cfs_bandwidth_slice_us``.
    machine_cores
        Cores of the machine that the threads of such a node run on at once, if there are at least as many threads.
    polling_share
        CPU that an executor's thread takes on such a node to poll for tuples, as a fraction of the time for which the
        node runs. It uses up the quota, but work has priority: it limits no rate.
    asleep_us
        Time until a thread that found no tuples polls again, once one has come: half of the 1 ms for which Storm's
        threads sleep, and the time to get a core. Only the part that a tuple loses by stops of its node counts.
    work_error, message_error, delay_error
        Relative errors of the work of executors, of the costs of messages, and of delays: half-widths.
    fitted_in
        None for costs that were not fitted to this cluster.

    Raises
    ------
    InputError
        A cost is negative or not a number, or an error is not below 1.
    """

    serialise_us: float = 1.6
    serialise_us_per_kb: float = 1.0
    send_us: float = 1.0
    send_us_per_kb: float = 0.5
    receive_us: float = 1.9
    receive_us_per_kb: float = 1.5
    worker_cores: float = 0.031
    spin_share: float = 0.0
    poll_us: float = 0.0
    polling_threads: float = 1.7
    overhead_bytes: float = 17.2
    local_hop_us: float = 100.0
    remote_hop_us: float = 1_000.0
    quota_period_ms: float = 0.0
    quota_piece_ms: float = 5.0
    machine_cores: float = 64.0
    polling_share: float = 0.017
    asleep_us: float = 600.0
    work_error: float = _WORK_ERROR
    message_error: float = _MESSAGE_ERROR
    delay_error: float = _DELAY_ERROR
    fitted_in: FitRange | None = None

    def __post_init__(self) -> None:
        wrong = []
        for each in fields(self):
            value = getattr(self, each.name)
            most = 1.0 if each.name.endswith(("_error", "_share")) else 1e12
            if each.name != "fitted_in" and not 0 <= value < most:
                wrong.append(Fault(f"should be a number from 0 to below {most:g}, got {value}", each.name))
        if wrong:
            raise InputError("costs", wrong)

    @property
    def polling_cores(self) -> float:
        """CPU that the executors of a full node take to poll for tuples, in cores."""
        return self.spin_share * self.polling_threads

    def varied(self, messages: float, delays: float) -> Costs:
        """Return the same with costs of messages and delays times a factor each."""
        of_messages = [n for n in self.__slots__ if n.split("_")[0] in ("serialise", "send", "receive")]
        of_delays = [n for n in self.__slots__ if n.endswith(("_hop_us", "asleep_us"))]
        scaled = {n: getattr(self, n) * messages for n in of_messages} | {
            n: getattr(self, n) * delays for n in of_delays
        }
        return replace(self, **scaled)


class InputWork(NamedTuple):
    """Work of a tuple at a component by one of several input streams.

    Parameters
    ----------
    source, stream
        The component that it comes from, and the stream.
    us
        CPU time of a core, in µs.
    part
        Fraction of the component's tuples that came by this stream where it was measured.
    identified
        Whether the stream's own cost was identified; otherwise it is the mean cost, as far as known.
    """

    source: str
    stream: str
    us: float
    part: float
    identified: bool = True

    def as_dict(self) -> dict[str, Any]:
        """Return the work for JSON."""
        return {
            "source": self.source,
            "stream": self.stream,
            "us": self.us,
            "part": self.part,
            "identified": self.identified,
        }


@dataclass(frozen=True, slots=True)
class Correction:
    """Fitted deviations of one topology from the costs of its cluster.

    Parameters
    ----------
    work, messages
        Factors of the work of its executors as measured, and of the CPU of its messages.
    error
        Relative error that is left in its work; None for that of the costs.
    inputs
        Component → work of tuples by input stream, if there are several. It divides the measured work among them, and
        so gives the work under another mix.
    scale
        Factor of all CPU of its trees, with which the placement that runs is predicted as it was measured
        (`stormwright.predict.fixed_point`).
    wait_s
        Time for which its trees wait besides, for the same reason: for whatever is no CPU and no link.
    tuple_us
        Component → CPU of a tuple in µs, without its messages and polls, as fitted to all measured rates. At low
        rates most of an executor's CPU are polls, so a single load says less of it.
    """

    work: float = 1.0
    messages: float = 1.0
    error: float | None = None
    inputs: Mapping[str, tuple[InputWork, ...]] = field(default_factory=dict)
    scale: float = 1.0
    wait_s: float = 0.0
    tuple_us: Mapping[str, float] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Return the correction for JSON."""
        inputs = {component: [one.as_dict() for one in work] for component, work in self.inputs.items()}
        return {
            "work": self.work,
            "messages": self.messages,
            "error": self.error,
            "inputs": inputs,
            "scale": self.scale,
            "tuple_us": dict(self.tuple_us),
        }


class LearnedScale(NamedTuple):
    """Logarithm of the scale of a topology (`Correction.scale`) as learned so far, and its variance."""

    log: float
    variance: float


NO_CORRECTIONS: Mapping[str, Correction] = MappingProxyType({})
