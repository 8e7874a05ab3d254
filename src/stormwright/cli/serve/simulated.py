"""``stormwright serve --simulated``: options of a virtual cluster instead of a real one."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stormwright.cli import options
from stormwright.errors import Fault

if TYPE_CHECKING:
    from stormwright.workbench.simulated.served_cluster import ServedCluster

_NO_SPARK = "a virtual cluster is measured without Spark: leave it out"
_ONE = "a virtual cluster runs in the service that it is for: there is no other"

#: Parameters that say something only of a real cluster → why they say nothing of a virtual one; and the other way.
_REAL: Mapping[str, str] = {
    "storm_home": "no Storm runs under --simulated: leave out one of them",
    "alarm_after_s": _NO_SPARK,
    "keep_raw_h": _NO_SPARK,
    **dict.fromkeys(("kafka_brokers", "kafka_topic", "kafka_conf", "kafka_jars"), _NO_SPARK),
    "history_uri": _NO_SPARK,
    "history_format": _NO_SPARK,
    "history_conf": _NO_SPARK,
    "keep_history_days": _NO_SPARK,
    "pair": _ONE,
    "pair_secret": _ONE,
    **dict.fromkeys(("pair_tls_ca", "pair_tls_cert", "pair_tls_key", "known_as"), _ONE),
}
_VIRTUAL: Mapping[str, str] = dict.fromkeys(
    ("trace", "speed"), "only a virtual cluster has one: name it with --simulated"
)


class RealClusterOption(click.Option):
    """An option that is required for a real cluster."""

    def process_value(self, ctx: click.Context, value: Any) -> Any:
        """See click; ``--simulated`` is eager, so that it is known here."""
        found = super().process_value(ctx, value)
        needed = not isinstance(ctx.params.get("simulated"), Path)
        if needed and self.value_is_missing(found) and not ctx.resilient_parsing:
            raise click.MissingParameter(ctx=ctx, param=self)
        return found


def simulated(function: options.Function) -> options.Function:
    """Add ``--simulated``, ``--trace`` and ``--speed``."""
    file = click.option(
        "--simulated",
        type=options.PATH,
        metavar="FILE",
        is_eager=True,
        help="Problem whose cluster is simulated in virtual time instead of a real one; needs neither Storm nor Java.",
    )
    trace = click.option(
        "--trace",
        type=options.PATH,
        metavar="FILE",
        help="How rates change: lines of SECONDS,FACTOR or SECONDS,FACTOR,TOPOLOGY, as for `stormwright simulate`.",
    )
    speed = click.option(
        "--speed",
        type=options.FiniteRange(0, 1e6, min_open=True),
        default=1.0,
        show_default=True,
        help="Virtual seconds per second, at most what this machine can do.",
    )
    return file(trace(speed(function)))


@contextmanager
def somewhere(state_dir: Path | None) -> Iterator[Path]:
    """Yield the state directory of a service, or a temporary one."""
    if state_dir is not None:
        yield state_dir
        return
    with tempfile.TemporaryDirectory(prefix="stormwright-simulated-") as made:
        yield Path(made)


def without_effect(values: Mapping[str, Any]) -> list[Fault]:
    """Return options without effect on the kind of cluster, as faults."""
    return options.idle(_REAL if values["simulated"] else _VIRTUAL)


def cluster_of(values: Mapping[str, Any]) -> ServedCluster | None:
    """Return the virtual cluster from the verb's parameters; None for a real one.

    Raises
    ------
    InputError
        The parameters are invalid.
    """
    from stormwright.workbench.simulated.served_cluster import served_cluster

    if not values["simulated"]:
        return None
    return served_cluster(values["simulated"], values["trace"], values["speed"])
