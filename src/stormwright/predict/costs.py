"""What messages and workers cost besides what executors do, and how well that is known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType
from typing import Any, NamedTuple

from stormwright.errors import Fault, InputError

#: Half-widths of the intervals before anything was fitted, in parts.
_WORK_ERROR, _MESSAGE_ERROR, _DELAY_ERROR = 0.1, 0.3, 0.5


@dataclass(frozen=True, slots=True)
class CostRange:
    """From `least` to `most` of something that was seen while costs were fitted."""

    least: float
    most: float

    def holds(self, value: float) -> bool:
        """Whether `value` is inside, up to rounding."""
        return self.least * (1 - 1e-9) <= value <= self.most * (1 + 1e-9)


@dataclass(frozen=True, slots=True)
class FittedIn:
    """In what range costs were fitted; outside of it a prediction says so.

    Parameters
    ----------
    node_utilisation
        CPU in use of the nodes, in parts of their capacity.
    rate_tps
        Topology id → trees/s at which it was seen.
    """

    node_utilisation: CostRange
    rate_tps: Mapping[str, CostRange] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Costs:
    """CPU, bytes and delays of a cluster that belong to no executor's own work.

    CPU is in µs of a core of the problem's `core_hz`; a faster core takes less. A message is a tuple that leaves its
    worker. What it takes to send and to receive one, what a worker takes by being there and what a message adds on the
    wire are as measured of one word count (Storm 2.8.3, a core that tells 2.4 GHz; tuples of 16 bytes, 33 on the wire).
    What serialising takes, all costs by the byte and the delays are assumed, until they are fitted to a cluster.

    Parameters
    ----------
    serialise_us, serialise_us_per_kb
        Of a message, in the thread of the executor that sends it; the second for each 1,000 bytes.
    send_us, send_us_per_kb
        In the threads of the sender's worker that hand it to the network.
    receive_us, receive_us_per_kb
        In the threads of the receiver's worker that take it and make a tuple of it.
    worker_cores
        CPU that a worker takes by being there (heartbeats, metrics, garbage collection), in cores.
    spin_share
        CPU that an executor's thread takes while it polls for tuples, in parts of that time; 0 until it was fitted. It
        comes off the measured CPU of executors, and a node that is full still spends `polling_cores` on it.
    polling_threads
        Threads of a full node that poll at any moment, in the mean. Measured: 1.2 + 0.067 for each executor on 217 full
        nodes of 0.4 cores with 1 to 28 executors.
    overhead_bytes
        What a message adds to its tuple on the wire.
    local_hop_us, remote_hop_us
        Delay of a tuple on its way into a queue of its own worker, and of another one, where nothing is in its way.
    quota_period_ms
        Period of the quota that holds every node to its CPU (``cpu.max`` of a control group, a container's CPU limit),
        after which a node that has used it up runs again; 0 for whole machines, which do not stop. Linux has 100.
    quota_piece_ms
        Pieces in which the quota is dealt out to cores: the kernel's ``sched_cfs_bandwidth_slice_us``.
    machine_cores
        Cores of the machine that the threads of such a node run on at once, if there are so many threads.
    polling_share
        CPU that an executor's thread takes on such a node to look for tuples, in parts of the time for which the node
        runs. It uses up the quota, but work goes before: it limits no rate.
    asleep_us
        Time until a thread that found no tuples looks again, once one has come: half of the 1 ms for which Storm's
        threads sleep, and what it takes to have a core. Of that only what a tuple loses by stops of its node counts.
    work_error, message_error, delay_error
        Relative errors of the work of executors, of the costs of messages, and of delays: half-widths.
    fitted_in
        None for costs that were not fitted to this cluster.

    Raises
    ------
    InputError
        A cost is negative or no number, or an error is not below 1.
    """

    serialise_us: float = 1.6
    serialise_us_per_kb: float = 1.0
    send_us: float = 1.0
    send_us_per_kb: float = 0.5
    receive_us: float = 1.9
    receive_us_per_kb: float = 1.5
    worker_cores: float = 0.031
    spin_share: float = 0.0
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
    fitted_in: FittedIn | None = None

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
        """The same with costs of messages and delays times a factor each."""
        of_messages = [n for n in self.__slots__ if n.split("_")[0] in ("serialise", "send", "receive")]
        of_delays = [n for n in self.__slots__ if n.endswith(("_hop_us", "asleep_us"))]
        scaled = {n: getattr(self, n) * messages for n in of_messages} | {
            n: getattr(self, n) * delays for n in of_delays
        }
        return replace(self, **scaled)


class InputWork(NamedTuple):
    """What a tuple that comes to a component by one of several streams takes there.

    Parameters
    ----------
    source, stream
        The component that it comes from, and the stream.
    us
        Of a core, in µs.
    part
        What part of the component's tuples came by it where it was measured.
    told
        Whether it was told apart from the others; else it is what they take in the mean, as far as is known.
    """

    source: str
    stream: str
    us: float
    part: float
    told: bool = True


@dataclass(frozen=True, slots=True)
class Correction:
    """What was learned about one topology beyond the costs of its cluster.

    Parameters
    ----------
    work, messages
        Factors of the work of its executors as measured, and of the CPU of its messages.
    error
        Relative error that is left in its work; None for that of the costs.
    inputs
        Component → what tuples take there by the stream that they come by, where there are several. Of its work as
        measured it says how that divides among them, and so what becomes of it where their mix is another one.
    """

    work: float = 1.0
    messages: float = 1.0
    error: float | None = None
    inputs: Mapping[str, tuple[InputWork, ...]] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Itself for JSON."""
        inputs = {component: [one._asdict() for one in of] for component, of in self.inputs.items()}
        return {"work": self.work, "messages": self.messages, "error": self.error, "inputs": inputs}


NO_CORRECTIONS: Mapping[str, Correction] = MappingProxyType({})
