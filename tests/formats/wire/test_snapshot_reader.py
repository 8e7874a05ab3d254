"""Reading by lines gives what reading as a whole gives, whatever was read before."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stormwright.errors import InputError
from stormwright.formats import problem_to_dict, snapshot_from_dict
from stormwright.formats.nimbus_snapshot import SnapshotReader
from stormwright.testing.strategies import problems
from tests.controller.builders import on, place, problem, topology

A, B = topology("a"), topology("b")


def question(document: Mapping[str, Any]) -> bytes:
    """As ``PlacementScheduler`` writes it."""
    lists = ("supervisors", "topologies", "assignments")
    head = orjson.dumps({key: value for key, value in document.items() if key not in lists})[:-1]
    supervisors, topologies = ([orjson.dumps(item) for item in document[key]] for key in lists[:2])
    assignments = [orjson.dumps({name: placed})[1:-1] for name, placed in document["assignments"].items()]
    parts = [
        b'{"schema":"stormwright-snapshot/1","cluster":{"nimbus_host":"n"},"problem":', head,
        b',"supervisors":[', lines(supervisors), b'],"topologies":[', lines(topologies),
        b'],"assignments":{', lines(assignments), b"}}}",
    ]  # fmt: skip
    return b"".join(parts)


def lines(items: list[bytes]) -> bytes:
    return b"\n" + b",\n".join(items) + b"\n" if items else b""


def shown(of: Any) -> dict[str, Any]:
    document = problem_to_dict(of)
    document.pop("load", None)
    return document


def as_nimbus_sends(of: Any) -> dict[str, Any]:
    """Without what only our own files have."""
    document = orjson.loads(orjson.dumps(shown(of)))
    for node in document["supervisors"]:
        node.pop("link_bps", None)
    return document


@pytest.mark.long
@given(st.lists(problems(), min_size=1, max_size=3))
def test_by_lines_is_as_a_whole_whatever_came_before(snapshots):
    reader = SnapshotReader()
    for each in [*snapshots, snapshots[0]]:
        document = as_nimbus_sends(each)
        read = reader.read(question(document))
        whole, unfit = snapshot_from_dict(document)
        assert shown(read.problem) == shown(whole)
        assert read.unfit == unfit


def test_unchanged_objects_are_identical_across_snapshots():
    reader = SnapshotReader()
    running = problem([A, B], current={A.id: on("n0")})
    first = reader.read(question(as_nimbus_sends(running))).problem
    assert reader.read(question(as_nimbus_sends(running))).problem is first
    then = reader.read(question(as_nimbus_sends(problem([A], current={A.id: on("n1")})))).problem
    assert then.topologies[0] is first.topologies[0]
    assert then.supervisors[2] is first.supervisors[2]
    assert then.current == {A.id: on("n1")}


def test_unchanged_parts_are_shared_between_snapshots():
    """The cluster's arrays are made once, whatever is submitted or killed meanwhile; and the other way round."""
    reader = SnapshotReader()
    first = reader.read(question(as_nimbus_sends(problem([A, B], current={A.id: on("n0")})))).problem
    then = reader.read(question(as_nimbus_sends(problem([A], current={A.id: on("n0")})))).problem
    assert then.cluster is first.cluster
    assert then.workload is not first.workload
    fewer = reader.read(question(as_nimbus_sends(problem([A], 2, current={A.id: on("n0")})))).problem
    assert fewer.workload is then.workload
    assert [node.id for node in fewer.cluster.supervisors] == ["n0", "n1"]
    closed = as_nimbus_sends(problem([A], 2, blacklisted_hosts=frozenset({"host1"})))
    assert reader.read(question(closed)).problem.node_usable.tolist() == [True, False]


def test_configuration_values_of_equal_value_but_other_type_are_distinguished():
    reader = SnapshotReader()
    document = as_nimbus_sends(problem([A]))
    for value in (1, True, 1.0):
        read = reader.read(question({**document, "conf": {"x": value}})).problem
        assert type(read.conf["x"]) is type(value)


def test_reader_validates_each_topology_once(monkeypatch):
    looked = []
    monkeypatch.setattr("stormwright.model.topology.topology_wrong", lambda topology: looked.append(topology) or ())
    reader = SnapshotReader()
    for topologies in ([A, B], [A], [B, A]):
        reader.read(question(as_nimbus_sends(problem(topologies, current={A.id: on("n0")}))))
    assert all(topology is A or topology is B for topology in looked), "those that were read had been looked at"


def test_link_that_a_supervisor_declares_is_its_speed(caplog):
    document = as_nimbus_sends(problem([A], 3))
    for node, speed in zip(document["supervisors"], ("25mbit", "1Gbit", "fast"), strict=True):
        node["scheduler_meta"] = {"stormwright.link": speed}
    reader = SnapshotReader()
    for number in range(2):
        read = reader.read(question({**document, "name": str(number)})).problem
        assert [node.link_bps for node in read.supervisors] == [25e6, 1e9, None]
    whole, _ = snapshot_from_dict(document)
    assert [node.link_bps for node in whole.supervisors] == [25e6, 1e9, None]
    (warning,) = caplog.messages
    assert "n2" in warning
    assert "'fast'" in warning


def test_core_speed_is_taken_from_the_current_request():
    reader = SnapshotReader()
    document = as_nimbus_sends(problem([A]))
    for node in document["supervisors"]:
        node.pop("cpu_hz")
        node["resources"] = {"cpu.pcore.percent": 200.0}
    for core_hz in (1e9, 2e9):
        read = reader.read(question({**document, "core_hz": core_hz}))
        assert [node.cpu_hz for node in read.problem.supervisors] == [2 * core_hz] * 3


def test_faulty_topology_configuration_is_reported_for_every_snapshot():
    reader = SnapshotReader()
    document = as_nimbus_sends(problem([A, B]))
    document["topologies"][0]["conf"] = {"topology.priority": -1}
    for current in ({}, {B.id: {"slots": [["n0", 6700]], "slot_of_executor": [0, 0, 0, 0]}}):
        read = reader.read(question({**document, "assignments": current}))
        assert read.unfit == {A.id: ('conf["topology.priority"]: should be an integer of at least 0, got -1',)}


def broken(document: dict[str, Any], kind: str) -> bytes:
    match kind:
        case "supervisor":
            document["supervisors"][1]["ports"] = [-5]
        case "same supervisor":
            document["supervisors"][1] = document["supervisors"][0]
        case "same id":
            document["supervisors"][1]["id"] = document["supervisors"][0]["id"]
        case "topology":
            document["topologies"][0]["num_workers"] = 0
        case "same topology":
            document["topologies"].append(document["topologies"][0])
        case "assignment of nobody":
            document["assignments"]["nobody"] = {"slots": [], "slot_of_executor": []}
        case "assignment too short":
            document["assignments"][A.id]["slot_of_executor"] = [0]
        case "a slot twice":
            document["assignments"][A.id]["slots"] *= 2
        case "configuration":
            document["conf"]["topology.ras.constraints"] = 3
    return question(document)


@pytest.mark.parametrize(
    "kind",
    ["supervisor", "same supervisor", "same id", "topology", "same topology", "assignment of nobody",
     "assignment too short", "a slot twice", "configuration"],
)  # fmt: skip
@pytest.mark.parametrize("after_a_sound_one", [False, True])
def test_incremental_reader_reports_the_same_faults_as_a_full_read(kind, after_a_sound_one):
    sound = as_nimbus_sends(problem([A, B], current={A.id: on("n0")}))
    reader = SnapshotReader()
    if after_a_sound_one:
        reader.read(question(sound))
    body = broken(orjson.loads(orjson.dumps(sound)), kind)
    with pytest.raises(InputError) as error:
        reader.read(body)
    with pytest.raises(InputError) as wanted:
        snapshot_from_dict(orjson.loads(body)["problem"], source="snapshot of Nimbus")
    assert str(error.value) == str(wanted.value)
    assert shown(reader.read(question(sound)).problem) == sound, "and the next question is read as ever"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"{", "not JSON"),
        (b"null", "should be an object, got None"),
        (b"[]", r"should be an object, got \[\]"),
        (b"{}", r"required field missing @ \$.problem"),
        (b'{"problem": null}', "should be an object, got None"),
        (b'{"problem": {"topologies": 3}}', "should be a list, got 3"),
        (b'{"problem":{"supervisors":[\n{},\n],"topologies":[]}}', "not JSON"),
        (b'{"problem":{"supervisors":[\n{}{}\n],"topologies":[]}}', "not JSON"),
        (b'{"problem":{"supervisors":[\n{"id":"a"},{"id":"b"}\n]}}', "required field missing"),
    ],
)
def test_malformed_body_has_a_readable_error_message(body, expected):
    with pytest.raises(InputError, match=expected):
        SnapshotReader().read(body)


def test_lines_elsewhere_are_read_too():
    document = as_nimbus_sends(problem([A]))
    whole = orjson.dumps({"problem": {**document, "conf": {"x": [{"a": 1}]}}}).replace(b'[{"a":1}]', b'[\n{"a":1}\n]')
    assert SnapshotReader().read(whole).problem.conf == {"x": [{"a": 1}]}


@pytest.mark.parametrize("between", ["two in one slot", "load"])
def test_cache_is_invalidated_by_a_request_read_as_a_whole(between):
    """Else the topologies and supervisors of an earlier question would be shown under a newer assignment."""
    reader = SnapshotReader()
    first, then = as_nimbus_sends(problem([A])), as_nimbus_sends(problem([A, B], current={A.id: on("n0")}))
    reader.read(question(first))
    if between == "load":
        reader.read(question({**then, "load": {}}))
    else:
        odd = {**then, "assignments": {A.id: then["assignments"][A.id], B.id: then["assignments"][A.id]}}
        reader.read(question(odd))
    other = {**first, "assignments": then["assignments"]}
    for document in (other, then) if between == "load" else (then, other):
        assert shown(reader.read(question(document)).problem) == document


def test_two_assignments_on_a_line_are_both_read():
    document = as_nimbus_sends(problem([A, B], current={A.id: on("n0"), B.id: on("n1")}))
    body = question(document).replace(b',\n"b-1-0"', b',"b-1-0"')
    assert shown(SnapshotReader().read(body).problem) == document


def test_second_topology_in_an_occupied_slot_is_unassigned(caplog):
    """Nimbus has stored the one and not the other of two that change places, and has ended in between."""
    document = as_nimbus_sends(problem([A, B], current={A.id: on("n0", "n1")}))
    document["assignments"][B.id] = {"slots": [["n0", 6700], ["n2", 6700]], "slot_of_executor": [0, 0, 1, -1]}
    read = SnapshotReader().read(question(document))
    assert read.problem.current == {A.id: on("n0", "n1"), B.id: place([("n2", 6700)], [-1, -1, 0, -1])}
    assert caplog.messages == [f"{A.id} and {B.id} are both in slot n0:6700: {B.id} is placed again"]


@pytest.mark.parametrize("slots", [3, [3], [["n0"]], [["n0", 6700, 1]], [[{}, 6700]], [["n0", 6700.5]]])
def test_invalid_slot_is_a_fault_at_any_position(slots):
    document = as_nimbus_sends(problem([A, B], current={A.id: on("n0")}))
    document["assignments"][B.id] = {"slots": slots, "slot_of_executor": [0, 0, 0, 0]}
    with pytest.raises(InputError, match=r"assignments.*slots"):
        SnapshotReader().read(question(document))
