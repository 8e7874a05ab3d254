"""Calibration run: records of a benchmark topology show the costs of messages on a cluster."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from starlette.applications import Starlette

from stormwright.errors import ClusterError, NimbusError
from stormwright.predict.calibration.windows import WARM_S
from stormwright.service.http.app import Endpoints
from stormwright.service.http.deliveries import BodyRecipient, Deliveries
from stormwright.service.http.server import HttpServer

log = logging.getLogger(__name__)

#: A word count sends to other workers under any placement, as words are grouped by fields.
_TOPOLOGY = "stormwright.topologies.WordCount"
_SIZES = {"spouts": 2, "split": 4, "count": 4}

#: Maximum seconds until the first record, and between checks.
_REPORT_S, _LOOK_S = 120.0, 0.5


class _Nimbus(Protocol):
    """The call to Nimbus that a calibration makes."""

    def kill(self, name: str, wait_s: int) -> None: ...


#: Class of a topology, arguments of its ``main``, and configuration that wins over its own.
Submit = Callable[[str, Sequence[str], Mapping[str, Any]], None]


class _Records:
    """Recorder of deliveries in a file."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.first: float | None = None

    def take(self, bodies: Sequence[bytes]) -> None:
        with self._file.open("ab") as file:
            for body in bodies:
                file.write(body if body.endswith(b"\n") else body + b"\n")
        self.first = self.first or time.monotonic()


def run_calibration(
    submit: Submit, nimbus: _Nimbus, address: tuple[str, int], file: Path, *, rate_tps: float, seconds: float
) -> None:
    """Run the topology and store its records in `file`; the topology is killed in any case.

    Parameters
    ----------
    submit
        Submits a topology of our jar to the cluster.
    nimbus
        Connection to Nimbus, to kill the topology.
    address
        Address of this machine that workers can reach.
    file
        File for the records, a line each.
    rate_tps
        Trees/s, limited to leave CPU to other topologies.
    seconds
        Duration of the measurement once workers are warm.

    Raises
    ------
    ClusterError
        The address is not available, the topology could not be submitted, or no worker reported.
    NimbusError
        It could not be killed.
    """
    host, port = address
    reached = f"[{host}]" if ":" in host else host
    records = _Records(file)
    name = f"stormwright-calibration-{int(time.time())}"
    args = {"name": name, **_SIZES, "workers": 3, "rate": f"{rate_tps:g}"}
    conf = {"stormwright.probe.service.url": f"http://{reached}:{port}", "stormwright.probe.interval.ms": 1000}
    with HttpServer(Endpoints(Starlette(), Deliveries(BodyRecipient(records.take))), host, port):
        log.info("submitting %s, %g tuple trees/s", name, rate_tps)
        try:
            submit(_TOPOLOGY, [f"{key}={value}" for key, value in args.items()], conf)
            _wait(records, name, seconds)
        except BaseException:
            with suppress(NimbusError):  # it may not exist; the first error is raised
                nimbus.kill(name, 0)
            raise
        log.info("killing %s", name)
        nimbus.kill(name, 0)


def _wait(records: _Records, name: str, seconds: float) -> None:
    """Return when warm workers have been measured for `seconds`."""
    begin = time.monotonic()
    while records.first is None:
        if time.monotonic() - begin > _REPORT_S:
            raise ClusterError(
                f"{name}: no worker reported within {_REPORT_S:g} s; do workers reach this address (--host, --port), "
                "and is the stormwright jar in extlib of every supervisor?"
            )
        time.sleep(_LOOK_S)
    log.info("its workers report; measuring for %g s once they are warm, %g s from now", seconds, WARM_S)
    time.sleep(max(records.first + WARM_S + seconds - time.monotonic(), 0.0))
