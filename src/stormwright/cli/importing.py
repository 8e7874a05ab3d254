"""``stormwright import``: create a problem file from a cluster or its files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from stormwright.cli import options
from stormwright.cli.lines import say
from stormwright.cli.output import prepare_output, print_json
from stormwright.errors import Fault, InputError
from stormwright.formats import problem_from_dict, problem_to_dict, write_json
from stormwright.formats.document.faults import raise_all
from stormwright.formats.storm.storm_yaml import DEFAULTS, StormYaml
from stormwright.model.problem import size_of
from stormwright.model.topology import Topology

_output = options.output("Write the problem here, gzipped for *.gz, instead of printing it.")
_storm_home = click.option(
    "--storm-home",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Storm installation whose classes and storm.yaml are used.  [default: $STORM_HOME, or that of `storm` on "
    "PATH]",
)


def _nodes(function: options.Function) -> options.Function:
    """Add the options that describe nodes."""
    cluster = click.option(
        "--cluster",
        "clusters",
        multiple=True,
        type=options.PATH,
        metavar="STORM_YAML",
        help="storm.yaml of a supervisor; repeat for several. The first one with a cluster-wide key determines "
        "its value.",
    )
    nimbus = click.option(
        "--nimbus",
        type=options.PATH,
        metavar="STORM_YAML",
        help="storm.yaml of Nimbus, whose cluster-wide keys (scheduler, isolation, pools) come first; with "
        "user-resource-pools.yaml and multitenant-scheduler.yaml beside it. It is no node.",
    )
    supervisors = click.option(
        "--supervisors",
        "copies",
        type=options.WholeRange(1, 1_000_000),
        help="Number of supervisors with the same storm.yaml, or with Storm's defaults.",
    )
    return cluster(nimbus(supervisors(function)))


@click.group(cls=options.Verbs)
def command() -> None:
    pass


@command.command()
@click.argument("topologies", nargs=-1, required=True, type=options.PATH, metavar="TOPOLOGY...")
@_nodes
@click.option("--filter", "properties", type=options.PATH, help="Properties file for ${name}, as for Flux.")
@click.option(
    "--class-path",
    "class_path",
    multiple=True,
    type=click.Path(path_type=Path, exists=True),
    help="Jar or directory with resources that the files include, as the topology's jar has them; repeat for several.",
)
@click.option(
    "--stateful",
    multiple=True,
    metavar="NAME",
    help="Topology with stateful bolts, to which Storm adds a checkpoint spout; repeat for several.",
)
@click.option("--env-filter", is_flag=True, help="Substitute ${ENV-NAME} from the environment, as Flux does.")
@_output
def flux(
    topologies: tuple[Path, ...],
    clusters: tuple[Path, ...],
    nimbus: Path | None,
    copies: int | None,
    properties: Path | None,
    class_path: tuple[Path, ...],
    stateful: tuple[str, ...],
    env_filter: bool,
    output: Path | None,
) -> None:
    """Import the Flux files TOPOLOGY... as topologies submitted to a new cluster in this order.

    Tasks are numbered, and ackers and other system components added, as Storm does. The load is unknown: spouts are
    assumed to emit one tuple a second, and executors to need what their components request.
    """
    from stormwright.formats.storm.conf import CLUSTER_KEYS
    from stormwright.formats.storm.flux import read_flux
    from stormwright.formats.storm.flux_files import Substitution
    from stormwright.formats.storm.java_properties import read_properties
    from stormwright.formats.storm.storm_yaml import cluster_conf, supervisors_of
    from stormwright.model import Problem

    if not clusters and copies is None:
        raise click.UsageError("describe the nodes: --cluster STORM_YAML, or --supervisors N for Storm's defaults")
    inputs = (*topologies, *clusters, *class_path, *(each for each in (properties, nimbus) if each))
    prepare_output(output, *inputs)
    errors: list[InputError] = []
    values = {}
    if properties is not None:
        try:
            values = read_properties(properties)
        except InputError as error:
            errors.append(error)
    files, of_nimbus = _storm_yamls(clusters, copies, errors), _nimbus_yamls(nimbus, errors)
    conf = cluster_conf([*of_nimbus, *files])
    substitution = Substitution(values, dict(os.environ) if env_filter else None)
    found, of_topologies = read_flux(topologies, conf, substitution, class_path, stateful)
    supervisors = supervisors_of(files, copies or 1)
    raise_all([*errors, *of_topologies, *_errors_of([*of_nimbus, *files])])
    _check_stateful(found, stateful)
    problem = Problem(supervisors, found, name=found[0].name, conf=conf.selected(CLUSTER_KEYS))
    _deliver(problem_to_dict(problem), "the files together", output)


@command.command()
@click.argument("topologies", nargs=-1, required=True, type=options.PATH, metavar="FILE...")
@_nodes
@_output
def loadgen(
    topologies: tuple[Path, ...],
    clusters: tuple[Path, ...],
    nimbus: Path | None,
    copies: int | None,
    output: Path | None,
) -> None:
    """Import loads that Storm's load generator has recorded.

    The topologies in FILE..., as CaptureLoad writes them, are submitted to a new cluster in this order. Spouts emit as
    recorded; a tuple uses the CPU of its recorded execution time, unless that is a millisecond or more: GenLoad waits
    then, and so nothing is used.
    """
    from stormwright.formats.storm.conf import CLUSTER_KEYS
    from stormwright.formats.storm.loadgen import read_loadgen
    from stormwright.formats.storm.storm_yaml import cluster_conf, supervisors_of
    from stormwright.model import Problem
    from stormwright.model.cluster import DEFAULT_CORE_HZ

    if not clusters and copies is None:
        raise click.UsageError("describe the nodes: --cluster STORM_YAML, or --supervisors N for Storm's defaults")
    prepare_output(output, *topologies, *clusters, *([nimbus] if nimbus else []))
    errors: list[InputError] = []
    files, of_nimbus = _storm_yamls(clusters, copies, errors), _nimbus_yamls(nimbus, errors)
    conf = cluster_conf([*of_nimbus, *files])
    found, load, of_topologies = read_loadgen(topologies, conf, DEFAULT_CORE_HZ)
    supervisors = supervisors_of(files, copies or 1)
    raise_all([*errors, *of_topologies, *_errors_of([*of_nimbus, *files])])
    problem = Problem(supervisors, found, name=found[0].name, conf=conf.selected(CLUSTER_KEYS), load=load)
    _deliver(problem_to_dict(problem), "the files together", output)


@command.command()
@_storm_home
@click.option(
    "-c",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="Configuration that overrides storm.yaml, as for `storm`.",
)
@_output
def nimbus(storm_home: Path | None, settings: tuple[str, ...], output: Path | None) -> None:
    """Import the supervisors, topologies and current placement of a running Nimbus.

    Nimbus is reached like by any Storm client, with the storm.yaml of the installation (nimbus.seeds, SASL, TLS). It
    does not report racks, supervisor.scheduler.meta or ports of free slots: those of the installation's storm.yaml are
    assumed. The load is unknown: spouts are assumed to emit one tuple a second, and executors to need what their
    components request.
    """
    from stormwright.storm.gateway import NimbusGateway
    from stormwright.storm.jvm import find_storm_home, storm_command

    for setting in settings:
        if "=" not in setting:
            raise click.BadParameter(f"should be key=value, got {setting!r}", param_hint="-c")
    prepare_output(output)
    command = storm_command(find_storm_home(storm_home), "stormwright.NimbusGateway", *settings)
    with NimbusGateway(command) as gateway:
        document = gateway.problem()
    _deliver(document, "the response of Nimbus", output)


@command.command()
@click.option("--code", "codes", multiple=True, required=True, type=options.PATH, help="Path of a stormcode.ser.")
@click.option(
    "--conf",
    "confs",
    multiple=True,
    required=True,
    type=options.PATH,
    help="Path of the matching stormconf.ser.",
)
@_nodes
@_storm_home
@_output
def serialized(
    codes: tuple[Path, ...],
    confs: tuple[Path, ...],
    clusters: tuple[Path, ...],
    nimbus: Path | None,
    copies: int | None,
    storm_home: Path | None,
    output: Path | None,
) -> None:
    """Import topologies as stored by Nimbus and supervisors: each --code with the --conf in the same position.

    Without --cluster or --supervisors the problem has no nodes.
    """
    from stormwright.formats.storm.conf import CLUSTER_KEYS
    from stormwright.formats.storm.storm_yaml import cluster_conf, supervisors_of
    from stormwright.model import Problem
    from stormwright.storm.jvm import find_storm_home, storm_command
    from stormwright.storm.serialized import READER, read_serialized

    if len(codes) != len(confs):
        raise click.UsageError(f"each --code needs its --conf: there are {len(codes)} and {len(confs)}")
    prepare_output(output, *codes, *confs, *clusters, *([nimbus] if nimbus else []))
    errors: list[InputError] = []
    files, of_nimbus = _storm_yamls(clusters, copies, errors), _nimbus_yamls(nimbus, errors)
    command = storm_command(find_storm_home(storm_home), READER)
    topologies, of_topologies = read_serialized(command, list(zip(codes, confs, strict=True)))
    supervisors = supervisors_of(files, copies or 1)
    raise_all([*errors, *of_topologies, *_errors_of([*of_nimbus, *files])])
    name, conf = str(topologies[0]["name"]), cluster_conf([*of_nimbus, *files])
    document = problem_to_dict(Problem(supervisors, (), name=name, conf=conf.selected(CLUSTER_KEYS)))
    _deliver({**document, "topologies": topologies}, "the files together", output)


def _check_stateful(found: Sequence[Topology], stateful: Sequence[str]) -> None:
    """Refuse unknown names of stateful topologies, and name topologies that may be stateful."""
    from stormwright.formats.storm.submission import STATE_KEYS
    from stormwright.model.requests import CHECKPOINT_SPOUT

    names = [topology.name for topology in found]
    if unknown := [name for name in stateful if name not in names]:
        raise InputError("--stateful", [Fault(f"no such topology; there are {', '.join(names)}", unknown[0])])
    for topology in found:
        key = next((key for key in topology.conf if key.startswith(STATE_KEYS)), None)
        if key is not None and topology.name not in stateful:
            say(
                f"{topology.name} sets {key}: if one of its bolts is stateful, Storm adds {CHECKPOINT_SPOUT}, and "
                f"the numbers of tasks follow; then pass --stateful {topology.name}",
                err=True,
            )


def _storm_yamls(paths: Sequence[Path], copies: int | None, errors: list[InputError]) -> list[StormYaml]:
    """Return the files at `paths`, or Storm's defaults if only a number of supervisors is given."""
    from stormwright.formats.storm.storm_yaml import read_storm_yaml

    if copies is not None and len(paths) > 1:
        raise click.UsageError("--supervisors copies one storm.yaml: give --cluster once")
    if copies is not None and not paths:
        return [DEFAULTS]
    files = []
    for path in paths:
        try:
            files.append(read_storm_yaml(path))
        except InputError as error:
            errors.append(error)
    return files


def _nimbus_yamls(path: Path | None, errors: list[InputError]) -> list[StormYaml]:
    """Return the storm.yaml of Nimbus and the files of pools beside it; none without a path."""
    from stormwright.formats.storm.storm_yaml import read_nimbus_yaml

    try:
        return read_nimbus_yaml(path) if path else []
    except InputError as error:
        errors.append(error)
        return []


def _errors_of(files: Sequence[StormYaml]) -> list[InputError]:
    return [file.layer.faults.error(file.source) for file in files if file.layer.faults]


def _deliver(document: dict[str, Any], source: str, output: Path | None) -> None:
    """Print or write a problem, once it was read back successfully."""
    problem = problem_from_dict(document, source)
    document = problem_to_dict(problem)
    if output is None:
        print_json(document)
        return
    write_json(output, document)
    say(f"{output}: {size_of(problem)}")
