"""``storm.yaml`` files: nodes and their capacities, names, the cluster's configuration, faults."""

from __future__ import annotations

from pathlib import Path

import pytest

from stormwright.errors import InputError
from stormwright.formats.storm.conf import CLUSTER_KEYS
from stormwright.formats.storm.storm_yaml import DEFAULTS, StormYaml, cluster_conf, read_storm_yaml, supervisors_of

ONE = """
storm.zookeeper.servers: [zk1]
storm.local.hostname: node-a
supervisor.slots.ports:
  - 6700
  - 6701
supervisor.cpu.capacity: 250.0
supervisor.memory.capacity.mb: 2048
supervisor.resources.map: {gpu.count: 2}
supervisor.scheduler.meta: {tags: "etl, gpu", rank: "3"}
isolation.scheduler.machines: {wordcount: 2}
topology.workers: 2
storm.zookeeper.topology.auth.payload: secret
"""


def written(tmp_path: Path, text: str, name: str = "storm.yaml") -> StormYaml:
    path = tmp_path / name
    path.write_text(text)
    return read_storm_yaml(path)


def faults(tmp_path: Path, text: str) -> list[str]:
    file = written(tmp_path, text)
    supervisors_of([file], 2)
    return [str(fault) for fault in file.layer.faults.faults]


def test_a_node(tmp_path):
    (node,) = supervisors_of([written(tmp_path, ONE)])
    assert (node.id, node.host, node.ports) == ("node-a", "node-a", (6700, 6701))
    assert node.resources == {"cpu.pcore.percent": 250.0, "memory.mb": 2048.0, "gpu.count": 2.0}
    assert node.cpu_hz == 2.5 * 3e9
    assert node.scheduler_meta == {"tags": "etl, gpu", "rank": "3"}


@pytest.mark.parametrize("text", ["", "# nothing\n", "{}"])
def test_storms_defaults(tmp_path, text):
    (node,) = supervisors_of([written(tmp_path, text)])
    # conf/defaults.yaml of Storm 2.8.3
    assert node.ports == (6700, 6701, 6702, 6703)
    assert node.resources == {"cpu.pcore.percent": 400.0, "memory.mb": 4096.0}
    assert node.scheduler_meta is None
    assert supervisors_of([DEFAULTS])[0] == node


def test_the_map_of_resources_wins(tmp_path):
    """As in SupervisorHeartbeat.mkSupervisorCapacities."""
    resources = "{supervisor.cpu.capacity: 300, supervisor.memory.capacity.mb: 1}"
    text = f"supervisor.cpu.capacity: 100\nsupervisor.resources.map: {resources}"
    (node,) = supervisors_of([written(tmp_path, text)])
    assert node.resources == {"cpu.pcore.percent": 300.0, "memory.mb": 1.0}


def test_names_of_copies(tmp_path):
    assert [node.id for node in supervisors_of([written(tmp_path, ONE)], 3)] == ["node-a-1", "node-a-2", "node-a-3"]
    assert [node.host for node in supervisors_of([DEFAULTS], 10)][::9] == ["supervisor-01", "supervisor-10"]


def test_supervisors_on_one_machine_get_distinct_ids(tmp_path):
    files = [written(tmp_path, ONE, "a.yaml"), written(tmp_path, "{}", "b.yaml"), written(tmp_path, ONE, "c.yaml")]
    nodes = supervisors_of(files)
    assert [(node.id, node.host) for node in nodes] == [
        ("node-a", "node-a"),
        ("supervisor-2", "supervisor-2"),
        ("node-a-2", "node-a"),
    ]


def test_configuration_of_the_cluster(tmp_path):
    other = "topology.workers: 9\nmultitenant.scheduler.user.pools: {me: 1}"
    conf = cluster_conf([written(tmp_path, ONE), written(tmp_path, other, "other.yaml")])
    assert conf.selected(CLUSTER_KEYS) == {
        "isolation.scheduler.machines": {"wordcount": 2},
        "multitenant.scheduler.user.pools": {"me": 1},
        "topology.workers": 2,
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("supervisor.slots.ports: 6700", ['should be a list, got 6700 @ $["supervisor.slots.ports"]']),
        (
            "supervisor.slots.ports: [6700, x, 6700, 70000]",
            [
                "should be a port, got 'x' @ $[\"supervisor.slots.ports\"][1]",
                'port 6700 is there twice @ $["supervisor.slots.ports"][2]',
                'should be a port, got 70000 @ $["supervisor.slots.ports"][3]',
            ],
        ),
        (
            "supervisor.cpu.capacity: many\nsupervisor.memory.capacity.mb: -1",
            [
                "should be a number from 0 to 1e18, got 'many' @ $[\"supervisor.cpu.capacity\"]",
                'should be a number from 0 to 1e18, got -1 @ $["supervisor.memory.capacity.mb"]',
            ],
        ),
        (
            "supervisor.memory.capacity.mb: 0",
            [
                (
                    "should be more than 0 for memory.mb: Storm does not register such a supervisor "
                    '@ $["supervisor.memory.capacity.mb"]'
                )
            ],
        ),
        (
            "supervisor.resources.map: {supervisor.cpu.capacity: 0, gpu: .nan}",
            [
                'should be a number from 0 to 1e18, got nan @ $["supervisor.resources.map"].gpu',
                (
                    "should be more than 0 for cpu.pcore.percent: Storm does not register such a supervisor "
                    '@ $["supervisor.resources.map"]'
                ),
            ],
        ),
        ("supervisor.scheduler.meta: etl", ["should be an object, got 'etl' @ $[\"supervisor.scheduler.meta\"]"]),
        (
            "supervisor.resources.map: {cpu.pcore.percent: 300, a: 1}",
            [
                (
                    "should be called supervisor.cpu.capacity here: Storm refuses the same resource under two names "
                    '@ $["supervisor.resources.map"]["cpu.pcore.percent"]'
                )
            ],
        ),
        ("supervisor.scheduler.meta: {a: 3}", ['should be a text in quotes, got 3 @ $["supervisor.scheduler.meta"].a']),
        ("nimbus.seeds: 10.0.0.1", ["should be a list of texts, got '10.0.0.1' @ $[\"nimbus.seeds\"]"]),
        ("storm.local.hostname: 3", ['should be a name, got 3 @ $["storm.local.hostname"]']),
    ],
)
def test_fault_common_to_all_copies_is_reported_once(tmp_path, text, expected):
    assert faults(tmp_path, text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [("[1]", "should be an object, got"), ("a: b: c", "is not YAML: mapping values are not allowed")],
)
def test_invalid_storm_yaml_configuration_is_rejected(tmp_path, text, message):
    with pytest.raises(InputError, match=message):
        written(tmp_path, text)


def test_unreadable_storm_yaml_raises_input_error(tmp_path):
    with pytest.raises(InputError, match="cannot be read: No such file"):
        read_storm_yaml(tmp_path / "none")
    (tmp_path / "latin").write_bytes(b"a: \xe4")
    with pytest.raises(InputError, match="is not text in UTF-8"):
        read_storm_yaml(tmp_path / "latin")
