"""``--kafka``: a topic whose messages are records."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stormwright.cli import options
from stormwright.errors import Fault, InputError, StormwrightError

if TYPE_CHECKING:
    from stormwright.pipeline.settings import KafkaTopic

#: Seconds for a broker to accept a connection.
_ANSWERS_S = 5.0

#: Part of `stormwright.pipeline.settings.KafkaTopic` → its option.
_OPTION = {"$.brokers": "--kafka", "$.name": "--kafka-topic", "$.options": "--kafka-conf", "$.jars": "--kafka-jars"}

#: Decorator: the options of a Kafka topic.
kafka_options = options.group(
    click.option(
        "--kafka",
        "kafka_brokers",
        metavar="BROKERS",
        help="Kafka brokers, as in kafka1:9092,kafka2:9092, with a topic of records.",
    ),
    click.option("--kafka-topic", metavar="TOPIC", help="Topic whose messages are lines of the performance log."),
    click.option(
        "--kafka-conf",
        type=options.LINES,
        multiple=True,
        metavar="KEY=VALUE",
        help="Option of Spark's Kafka source, as in kafka.security.protocol=SSL or startingOffsets=latest; in a "
        "variable, one a line. Other users can see a command line: write passwords in the variable, or in a file "
        "(`serve --config`).",
    ),
    click.option(
        "--kafka-jars",
        type=click.Path(path_type=Path, exists=True, file_okay=False),
        metavar="DIR",
        help="Directory with the jars of Spark's Kafka connector.  [default: fetched from a Maven repository]",
    ),
)


def topic_of(values: Mapping[str, Any], faults: list[Fault]) -> KafkaTopic | None:
    """Return the topic from the verb's parameters; None without one.

    Parameters
    ----------
    values
        Parameters of the verb by name.
    faults
        List to which faults of the parameters are appended.
    """
    from stormwright.cli.serve.config import key_values, source_of
    from stormwright.pipeline.settings import KafkaTopic

    brokers, name, conf = values["kafka_brokers"], values["kafka_topic"], values["kafka_conf"]
    if values.get("simulated"):
        return None  # all of these options are faults already
    if brokers is None:
        for option, value in (("--kafka-topic", name), ("--kafka-conf", conf), ("--kafka-jars", values["kafka_jars"])):
            if value:
                faults.append(Fault("has no effect without --kafka", source_of(option)))
        return None
    if name is None:
        faults.append(Fault("needs a topic: pass --kafka-topic", source_of("--kafka")))
        return None
    settings = key_values(conf, "--kafka-conf", faults)
    try:
        return KafkaTopic(brokers, name, settings, values["kafka_jars"])
    except InputError as error:
        faults += [Fault(fault.message, source_of(_OPTION[fault.path])) for fault in error.faults]
        return None


def answering(topic: KafkaTopic) -> str:
    """Return that a broker accepts connections.

    Raises
    ------
    StormwrightError
        None does.
    """
    failures = []
    for host, port in topic.addresses:
        try:
            socket.create_connection((host, port), timeout=_ANSWERS_S).close()
        except OSError as error:
            failures.append(f"{host}:{port}: {error.strerror or error}")
        else:
            return f"{host}:{port} accepts connections"
    raise StormwrightError(f"no Kafka broker answers ({'; '.join(failures)}): start it, or correct --kafka")
