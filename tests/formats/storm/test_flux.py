"""Flux files: what they become, beside what Flux and Storm make of them, and every fault with its place.

``flux/answers.json`` has what Flux 2.8.3 and Storm 2.8.3 themselves made of the examples beside it: FluxParser and
FluxBuilder (of the stateful one TopologyBuilder) built each topology, and ``stormwright.TopologyReader`` queried
Storm's classes for tasks, executors and resources.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stormwright.errors import InputError
from stormwright.formats import read_problem
from stormwright.formats.document.faults import FaultList
from stormwright.formats.document.topology import topology_to_dict
from stormwright.formats.files.json_files import read_json
from stormwright.formats.storm.conf import Layer, StormConf
from stormwright.formats.storm.flux import read_flux
from stormwright.formats.storm.flux_files import Substitution
from stormwright.formats.storm.java_properties import read_properties
from stormwright.model import Topology
from tests.case_files import case_files

FLUX = Path(__file__).parent / "flux"
NO_CONF = StormConf([])

#: Kinds of groupings that a case may have, as Flux names them.
TYPES = {"shuffle", "fields", "all", "global", "none", "direct", "local_or_shuffle"}

#: Resources that every executor asks for.
ALWAYS = {"cpu.pcore.percent", "onheap.memory.mb", "offheap.memory.mb"}

MIN = """
name: least
spouts:
  - {id: s, className: S}
bolts:
  - {id: b, className: B, parallelism: 2}
streams:
  - {from: s, to: b, grouping: {type: SHUFFLE}}
"""


def read(
    path: Path, conf: StormConf = NO_CONF, substitution: Substitution | None = None, stateful: tuple[str, ...] = ()
) -> Topology:
    topologies, errors = read_flux([path], conf, substitution or Substitution(), stateful=stateful)
    assert [str(error) for error in errors] == []
    return topologies[0]


def parsed(tmp_path: Path, text: str, conf: StormConf = NO_CONF) -> Topology:
    path = tmp_path / "topology.yaml"
    path.write_text(text)
    return read(path, conf)


def faults(tmp_path: Path, text: str, *, name: str = "topology.yaml") -> list[str]:
    path = tmp_path / name
    path.write_text(text)
    _, errors = read_flux([path], NO_CONF)
    return [str(fault) for error in errors for fault in error.faults]


def cluster(**values: object) -> StormConf:
    return StormConf([Layer({key.replace("_", "."): value for key, value in values.items()}, FaultList())])


def executors_of(topology: Topology, name: str) -> int:
    return {component.id: component.parallelism for component in topology.components}.get(name, 0)


@pytest.mark.parametrize("answer", json.loads((FLUX / "answers.json").read_text()), ids=lambda answer: answer["name"])
def test_parsed_topology_equals_result_of_flux_and_storm(answer):
    properties = read_properties(FLUX / "filled.properties")
    path, substitution = FLUX / f"{answer['name']}.yaml", Substitution(properties)
    topology = topology_to_dict(read(path, substitution=substitution, stateful=("stateful",)))
    assert topology["num_workers"] == answer["num_workers"]
    assert topology["executor_runs"] == answer["executor_runs"]
    for component in answer["components"]:
        component.pop("code", None)  # a Flux file names classes of its own, and Storm wraps them
        # Storm knows the names of generic resources process-wide: where they are not asked for it says 0.
        component["resources"] = {n: x for n, x in component["resources"].items() if x or n in ALWAYS}
    assert topology["components"] == answer["components"]


@pytest.mark.parametrize(
    ("name", "ackers"),
    [("orders", 4), ("watched", 3), ("filled", 1)],  # Nimbus.setUpAckerExecutorConfigs of Storm 2.8.3
)
def test_ackers_under_the_resource_aware_scheduler(name, ackers):
    conf = cluster(storm_scheduler="org.apache.storm.scheduler.resource.ResourceAwareScheduler")
    properties = read_properties(FLUX / "filled.properties")
    topology = read(FLUX / f"{name}.yaml", conf, Substitution(properties))
    assert executors_of(topology, "__acker") == ackers
    assert topology.conf["topology.acker.executors"] == ackers


@pytest.mark.parametrize(
    ("scheduler", "workers", "expected"),
    [
        ("org.apache.storm.scheduler.resource.ResourceAwareScheduler", None, 4),
        ("org.apache.storm.scheduler.resource.ResourceAwareScheduler", 6, 6),
        ("org.apache.storm.scheduler.resource.ResourceAwareScheduler", 2, 4),
        ("stormwright.PlacementScheduler", None, 4),
        ("org.apache.storm.scheduler.DefaultScheduler", None, 1),
    ],
)
def test_workers_hold_the_heaps_of_executors_under_the_resource_aware_scheduler(tmp_path, scheduler, workers, expected):
    """That scheduler ignores topology.workers: 7 executors of 128 MB, two in a heap of 256 MB, are in 4 workers."""
    config = {"topology.worker.max.heap.size.mb": 256, "topology.acker.executors": 0}
    if workers:
        config["topology.workers"] = workers
    spouts = [{"id": "s", "className": "S", "parallelism": 7}]
    conf = cluster(storm_scheduler=scheduler, stormwright_fallback="ResourceAwareScheduler")
    document = {"name": "t", "config": config, "spouts": spouts}
    assert parsed(tmp_path, json.dumps(document), conf).num_workers == expected


def test_tasks_of_the_peer_cases_are_numbered_alike(tmp_path):
    """Storm's own numbers of every topology there, its ackers included, whose groupings Flux has."""
    compared = 0
    for case in case_files("peer"):
        if "100" in case.name or "large" in case.name:
            continue
        for topology in read_problem(case).topologies:
            if any(run.tasks_per_executor != 1 for run in topology.executor_runs):
                continue
            path = tmp_path / "case.yaml"
            path.write_text(json.dumps(_as_flux(topology)))
            ours = read(path)
            assert _numbers(ours) == _numbers(topology), f"{case.name}: {topology.id}"
            compared += 1
    assert compared > 20


def _as_flux(topology: Topology) -> dict[str, object]:
    users = [component for component in topology.components if component.type != "system"]
    ackers = sum(component.parallelism for component in topology.components if component.id == "__acker")
    streams = [
        {"from": i.source, "to": c.id, "grouping": {"type": i.kind.upper(), "streamId": i.stream, "args": ["x"]}}
        for c in users
        for i in c.inputs
        if i.kind in TYPES
    ]
    return {
        "name": "case",
        "config": {"topology.workers": topology.num_workers, "topology.acker.executors": ackers},
        **{
            f"{kind}s": [{"id": c.id, "className": "X", "parallelism": c.parallelism} for c in users if c.type == kind]
            for kind in ("spout", "bolt")
        },
        "streams": streams,
    }


def _numbers(topology: Topology) -> list[tuple[str, int]]:
    components = [topology.components[index].id for index in topology.executor_component]
    return list(zip(components, topology.executor_start_task.tolist(), strict=True))


def test_least_has_an_acker_a_worker(tmp_path):
    topology = parsed(tmp_path, MIN)
    assert (topology.name, topology.id, topology.num_workers) == ("least", "least-1-0", 1)
    assert [(c.id, c.type, c.parallelism) for c in topology.components] == [
        ("__acker", "system", 1),
        ("b", "bolt", 2),
        ("s", "spout", 1),
    ]
    assert topology.components[1].resources == {
        "cpu.pcore.percent": 10.0,
        "onheap.memory.mb": 128.0,
        "offheap.memory.mb": 0.0,
    }


def test_cluster_configuration_is_overridden_by_topology_configuration(tmp_path):
    conf = cluster(topology_workers=4, topology_priority=3, isolation_scheduler_machines={"least": 1})
    topology = parsed(tmp_path, MIN + "config: {topology.priority: 5, other: 1}", conf)
    assert (topology.num_workers, executors_of(topology, "__acker")) == (4, 4)
    assert topology.conf == {"topology.priority": 5, "topology.workers": 4}


def test_no_ackers(tmp_path):
    assert executors_of(parsed(tmp_path, MIN + "config: {topology.acker.executors: 0}"), "__acker") == 0


def test_null_eventlogger_executors_means_one_per_worker(tmp_path):
    topology = parsed(tmp_path, MIN + "config: {topology.workers: 3, topology.eventlogger.executors: null}")
    assert executors_of(topology, "__eventlogger") == 3


@pytest.mark.parametrize(
    ("line", "filled"),
    [
        ("a: ${x}", "a: 1"),
        ("a: ${x} ${x}", "a: 1 1"),
        ("a: ${y} ${x}", "a: ${y} 1"),  # Flux looks at the last one of a line only
        ("a: ${list[1]}", "a: two"),
        ("a: ${list[7]}", "a: ${list[7]}"),
        ("a: ${ENV-HOME}", "a: /home"),
        ("a: ${ENV-NONE}", "a: ${ENV-NONE}"),
        ("a: ${missing}", "a: ${missing}"),
        ("a: $x {x}", "a: $x {x}"),
    ],
)
def test_placeholders_are_substituted(line, filled):
    substitution = Substitution({"x": "1", "y": "2", "list": '["one", "two"]'}, {"HOME": "/home"})
    assert substitution(line) == filled


def test_environment_is_read_only_on_request(tmp_path):
    assert Substitution({"ENV-HOME": "property"})("${ENV-HOME}") == "property"


def test_unresolved_placeholder_is_a_fault_in_required_fields(tmp_path):
    text = MIN.replace("parallelism: 2", "parallelism: '${n}'").replace("name: least", "name: ${name}")
    assert faults(tmp_path, text + "config: {topology.workers: '${w}', x: '${y}'}") == [
        "should be a name, but nothing gives a value to 'name', got '${name}' @ $.name",
        "should be a valid integer, got '${n}' @ $.bolts[0].parallelism",
        "should be an integer of at least 1, got '${w}' @ $.config[\"topology.workers\"]",
    ]


def test_resource_is_searched_in_parent_directories(tmp_path):
    (tmp_path / "flows").mkdir()
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "least.yaml").write_text(MIN)
    path = tmp_path / "flows" / "main.yaml"
    path.write_text("includes: [{resource: true, file: /conf/least.yaml}]")
    assert read(path).name == "least"


def test_includes_of_included_files_are_ignored(tmp_path):
    (tmp_path / "least.yaml").write_text(MIN + "includes: [{file: nowhere.yaml}]")
    assert parsed(tmp_path, "name: main\nincludes: [{file: least.yaml, override: 'false'}]").name == "main"


def test_an_override_has_the_name(tmp_path):
    (tmp_path / "least.yaml").write_text(MIN)
    assert parsed(tmp_path, "name: main\nincludes: [{file: least.yaml, override: true}]").name == "least"


def test_faults_of_an_included_file_are_its_own(tmp_path):
    (tmp_path / "part.yaml").write_text("bolts: [{id: b, className: B, paralelism: 2}]")
    path = tmp_path / "main.yaml"
    path.write_text(
        MIN.replace("bolts:", "workerHooks:").replace(", parallelism: 2", "") + "includes: [{file: part.yaml}]"
    )
    _, errors = read_flux([path], NO_CONF)
    assert [str(error) for error in errors] == [f"{tmp_path}/part.yaml: 1 fault\n  unknown key @ $.bolts[0].paralelism"]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (("name: least", "title: least"), ["unknown key @ $.title"]),
        (("name: least", ""), ["required field missing @ $.name"]),
        (("name: least", "name: a/b"), ["should have none of the characters / . : \\, got 'a/b' @ $.name"]),
        (
            ("className: S", "class: S"),
            ["required field missing @ $.spouts[0].className", "unknown key @ $.spouts[0].class"],
        ),
        (
            ("parallelism: 2", "parallelism: 0"),
            ["should be greater than or equal to 1, got 0 @ $.bolts[0].parallelism"],
        ),
        (("parallelism: 2", "numTasks: 1.5"), ["should be a valid integer, got 1.5 @ $.bolts[0].numTasks"]),
        (("to: b", "to: c"), ["unknown bolt 'c' @ $.streams[0].to"]),
        (("to: b", "to: s"), ["'s' is a spout @ $.streams[0].to"]),
        (("from: s", "from: t"), ["unknown spout or bolt 't' @ $.streams[0].from"]),
        (
            ("{type: SHUFFLE}", "{type: SHUFLE}"),
            [
                (
                    "should be 'ALL', 'CUSTOM', 'DIRECT', 'SHUFFLE', 'LOCAL_OR_SHUFFLE', 'FIELDS', 'GLOBAL' or 'NONE', "
                    "got 'SHUFLE' @ $.streams[0].grouping.type"
                )
            ],
        ),
        (("{type: SHUFFLE}", "{type: FIELDS}"), ["required field missing @ $.streams[0].grouping.args"]),
        (("{type: SHUFFLE}", "{type: CUSTOM}"), ["required field missing @ $.streams[0].grouping.customClass"]),
        (("{id: b,", "{id: s,"), ["unknown bolt 'b' @ $.streams[0].to"]),
        (("bolts:", "bolts: 3\ncomponents:"), ["should be a list, got 3 @ $.bolts"]),
    ],
)
def test_faults(tmp_path, change, expected):
    assert set(expected) <= set(found := faults(tmp_path, MIN.replace(*change)))
    assert len(found) <= len(expected) + 2


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ("{topology.workers: 0}", 'should be an integer of at least 1, got 0 @ $.config["topology.workers"]'),
        ("{topology.workers: two}", "should be an integer of at least 1, got 'two' @ $.config[\"topology.workers\"]"),
        ("{topology.acker.executors: true}", "should be an integer of at least 0, got True"),
        ("{topology.component.cpu.pcore.percent: -1}", "should be a number from 0 to 1e18, got -1"),
        ("{topology.component.resources.map: {gpu: x}}", '$.config["topology.component.resources.map"].gpu'),
        ("{topology.metrics.consumer.register: [{}]}", '$.config["topology.metrics.consumer.register"][0]'),
        ("3", "should be an object, got 3 @ $.config"),
    ],
)
def test_configuration_fault_is_reported_once(tmp_path, config, expected):
    (found,) = faults(tmp_path, MIN + f"config: {config}")
    assert expected in found


def test_all_flux_faults_are_reported_together(tmp_path):
    text = (
        MIN.replace("parallelism: 2", "parallelism: x").replace("SHUFFLE", "shuffle") + "config: {topology.workers: 0}"
    )
    assert [fault.rpartition("@ ")[2] for fault in faults(tmp_path, text)] == [
        "$.bolts[0].parallelism",
        "$.streams[0].grouping.type",
        '$.config["topology.workers"]',
    ]


def test_a_bolt_without_a_stream_is_left_out_and_gives_none(tmp_path):
    text = MIN + "  - {from: c, to: b, grouping: {type: SHUFFLE, streamId: x}}\n"
    text = text.replace("bolts:", "bolts:\n  - {id: c, className: C}")
    assert faults(tmp_path, text) == ["no stream goes to 'c', so Flux leaves it out @ $.streams[1].from"]


def test_a_java_class_as_topology(tmp_path):
    (fault,) = faults(tmp_path, "name: x\ntopologySource: {className: X}")
    assert fault.endswith("stormcode.ser @ $.topologySource")


@pytest.mark.parametrize("text", ["", "3", "[]", "name: x"])
def test_non_topology_yaml_is_rejected(tmp_path, text):
    assert faults(tmp_path, text)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: [1", "is not YAML: expected ',' or ']', but got '<stream end>' (line 1, column 6)"),
        ("a: !!python/object:os.x {}", "is not YAML: could not determine a constructor"),
        ("--- 1\n--- 2", "is not YAML: but found another document (line 2, column 1)"),
        ("a: \x01", "is not YAML: unacceptable character"),
        ("a: 2020-13-01", "is not YAML: month must be in 1..12"),
        ("a: &a [*a]", "contains itself"),
        ("[" * 3000, "is nested too deeply"),
    ],
)
def test_invalid_yaml_is_one_fault(tmp_path, text, expected):
    (fault,) = faults(tmp_path, text)
    assert expected in fault


def test_a_missing_include(tmp_path):
    assert faults(tmp_path, "includes: [{file: nowhere.yaml}]\n" + MIN) == [
        "no such file: 'nowhere.yaml' @ $.includes[0].file"
    ]


def test_duplicate_topology_name_is_rejected(tmp_path):
    paths = [tmp_path / "a.yaml", tmp_path / "b.yaml"]
    for path in paths:
        path.write_text(MIN)
    _, (error,) = read_flux(paths, NO_CONF)
    assert isinstance(error, InputError)
    assert str(error.faults[0]) == f"'least' is the name of the topology in {paths[0]} already @ $.name"


@pytest.mark.parametrize(
    ("text", "expected"),
    [  # the examples and rules in the documentation of java.util.Properties.load
        (
            "Truth = Beauty\n Truth2:Beauty\nTruth3   :Beauty",
            {"Truth": "Beauty", "Truth2": "Beauty", "Truth3": "Beauty"},
        ),
        ("fruits   apple, banana, \\\n      cherry", {"fruits": "apple, banana, cherry"}),
        ("cheeses", {"cheeses": ""}),
        ("# no\n! no\n\n  \t\na=1", {"a": "1"}),
        ("a\\:b\\ c\\=d = e", {"a:b c=d": "e"}),
        ("a=x\\u0041\\ty\\z", {"a": "xA\tyz"}),
        ("a=b\\\\\nc=d", {"a": "b\\", "c": "d"}),
        ("a = 1\r\nb\r=2", {"a": "1", "b": "", "": "2"}),
        ("a==1", {"a": "=1"}),
    ],
)
def test_properties(tmp_path, text, expected):
    path = tmp_path / "x.properties"
    path.write_bytes(text.encode("latin-1"))
    assert read_properties(path) == expected


def test_faults_of_properties(tmp_path):
    path = tmp_path / "x.properties"
    path.write_text("a=1\nb=\\u00g0\nc=\\u1")
    with pytest.raises(InputError) as raised:
        read_properties(path)
    assert [fault.path for fault in raised.value.faults] == ["line 2", "line 3"]
    with pytest.raises(InputError, match="cannot be read"):
        read_properties(tmp_path / "none")


def test_the_answers_are_whole():
    assert [answer["name"] for answer in read_json(FLUX / "answers.json")] == [
        "orders",
        "watched",
        "filled",
        "stateful",
    ]
